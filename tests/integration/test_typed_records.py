"""Records of classes in a running job: their classes are shipped, and their fields are columns.

Method: a frame becomes records, which workers change, and a frame again; tables of lakes are
written from records and read as records.
"""

import datetime
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import NamedTuple

import pandas
import pytest
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.delta import DeltaSink, DeltaSource
from penstock.datastream.connectors.iceberg import IcebergSink, IcebergSource
from penstock.datastream.formats.json import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)
from penstock.expressions import field
from penstock.table import StreamTableEnvironment
from pydantic import BaseModel
from pyiceberg.catalog import load_catalog
from support.environments import in_process


@dataclass(frozen=True, slots=True)
class Sale:
    shop: str
    price: float
    currency: str = "EUR"


class State(Enum):
    PAID = "paid"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Place:
    town: str
    number: int | None


@dataclass(frozen=True, slots=True)
class Order:
    number: int
    state: State
    at: datetime.datetime
    to: Place | None
    tags: tuple[str, str]
    others: list[Place]


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


@pytest.mark.parametrize("lake", ["delta", "iceberg"])
def test_a_table_of_a_lake_is_written_from_records_and_read_as_records(lake, tmp_path):
    if lake == "delta":
        sink = DeltaSink(str(tmp_path / "t"), Types.of(Order))
    else:
        catalog = {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/catalog.db",
            "warehouse": f"file://{tmp_path}/warehouse",
        }
        load_catalog("default", **catalog).create_namespace("db")
        sink = IcebergSink("db.t", Types.of(Order), catalog=catalog)
    at, rome = datetime.datetime(2026, 3, 8, 2, 30), Place("Rome", None)
    orders = [
        Order(1, State.PAID, at, rome, ("a", "b"), [rome]),
        Order(2, State.OPEN, at, None, ("", "c"), []),
    ]
    env = in_process(1)
    env.from_collection(orders).sink_to(sink)
    env.execute()
    if lake == "delta":
        source = DeltaSource.for_snapshot(str(tmp_path / "t"))
    else:
        source = IcebergSource.for_snapshot("db.t", catalog=catalog)
    rows = in_process(1).from_source(source, WatermarkStrategy.no_watermarks(), "lake")
    with rows.as_records(Order).execute_and_collect() as found:
        assert sorted(found, key=lambda order: order.number) == orders


class Cup(NamedTuple):
    number: int
    place: Place
    sizes: list[int]
    weights: dict[str, float]
    note: str | None
    state: State
    at: datetime.datetime
    price: Decimal


Bowl = dataclass(frozen=True, slots=True)(
    type("Bowl", (), {"__annotations__": Cup.__annotations__})
)


class Town(BaseModel):
    town: str
    number: int | None


class Plate(BaseModel):
    number: int
    place: Town
    sizes: list[int]
    weights: dict[str, float]
    note: str | None
    state: State
    at: datetime.datetime
    price: Decimal


@pytest.mark.parametrize(("kind", "place"), [(Cup, Place), (Bowl, Place), (Plate, Town)])
def test_records_of_every_kind_have_the_same_fields_in_every_format(kind, place, tmp_path):
    fields = {
        "place": place(town="Rome", number=None), "sizes": [1, 2], "weights": {"x": 1.5},
        "state": State.OPEN, "at": datetime.datetime(2026, 3, 8, 2, 30, 1, 5),
    }  # fmt: skip
    made = [
        kind(number=1, note=None, price=Decimal("12.50"), **fields),
        kind(number=2, note="é", price=Decimal(-1), **fields),
    ]
    typed = Types.of(kind)
    written = JsonRowSerializationSchema.builder().with_type_info(typed).build()
    read = JsonRowDeserializationSchema.builder().type_info(typed).build()
    assert [read.deserialize(written.serialize(record)) for record in made] == made
    frame = in_process(1).from_collection(made).to_pandas()
    assert list(frame.columns) == list(kind.__annotations__)
    sink = DeltaSink(str(tmp_path / "t"), typed)
    env = in_process(1)
    env.from_pandas(frame, typed).as_records(kind).sink_to(sink)
    env.execute()
    source = DeltaSource.for_snapshot(str(tmp_path / "t"))
    rows = in_process(1).from_source(source, WatermarkStrategy.no_watermarks(), "lake")
    with rows.as_records(kind).execute_and_collect() as found:
        assert sorted(found, key=lambda record: record.number) == made


def test_a_table_of_records_has_their_fields_as_columns():
    rome = Place("Rome", 7)
    orders = [
        Order(1, State.PAID, datetime.datetime(2026, 3, 8, 2, 30), rome, ("a", "b"), [rome]),
        Order(2, State.OPEN, datetime.datetime(2026, 3, 8), None, ("", "c"), []),
    ]
    env = in_process(2)
    tables = StreamTableEnvironment.create(env)
    table = tables.from_data_stream(env.from_collection(orders, Types.of(Order)))
    towns = table.where(table.state == "paid").select(table.to.town)
    assert [tuple(row) for row in towns.execute().collect()] == [("Rome",)]
    with tables.to_data_stream(table).as_records(Order).execute_and_collect() as found:
        assert sorted(found, key=lambda order: order.number) == orders
