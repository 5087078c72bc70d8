"""Records of classes in a running job: their classes are shipped, and their fields are columns.

Method: a frame becomes records, which workers change, and a frame again.
"""

from dataclasses import dataclass

import pandas
from penstock.common import Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.expressions import field


@dataclass(frozen=True, slots=True)
class Sale:
    shop: str
    price: float
    currency: str = "EUR"


def doubled(sale: Sale) -> Sale:
    return Sale(sale.shop, sale.price * 2, sale.currency)


def lies(sale: Sale) -> int:
    return sale.shop


def test_a_frame_becomes_records_and_a_frame_again():
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    frame = pandas.DataFrame({"shop": ["a", "b", "a"], "price": [1.5, 2.0, 3.0], "till": [7, 8, 9]})
    sales = env.from_pandas(frame).as_records(Sale).filter(field("price") < 2.5)
    found = sales.rebalance().map(doubled).key_by("shop").sum("price").to_pandas()
    rows = sorted(found.itertuples(index=False, name=None))
    assert (list(found.columns), rows) == (
        ["shop", "price", "currency"],
        [("a", 3.0, "EUR"), ("b", 4.0, "EUR")],
    )


def test_a_wrong_annotation_changes_no_result():
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    sales = env.from_collection([Sale("a", 1.0), Sale("b", 2.0)], Types.of(Sale))
    shops = sales.rebalance().map(lies).key_by(lambda shop: shop).reduce(lambda a, b: a)
    assert sorted(shops.execute_and_collect(limit=2)) == ["a", "b"]
