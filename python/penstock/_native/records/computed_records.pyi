from typing import final

@final
class ComputedRecords: ...
