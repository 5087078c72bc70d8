from penstock.taskexecutor.state.lent_values import MOST as MOST
from penstock.taskexecutor.state.lent_values import PART as PART
from penstock.taskexecutor.state.lent_values import VISITED as VISITED
from penstock.taskexecutor.state.lent_values import LentValues as LentValues
