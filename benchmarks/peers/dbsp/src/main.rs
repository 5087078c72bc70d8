//! Queries of Nexmark as circuits of DBSP, a peer of `benchmarks/nexmark`.
//!
//!     dbsp_nexmark QUERY FOLDER WORKERS [ROWS]
//!
//! Reads the Parquet files of the tables in the order of their events, 10,000 events in a step.  A
//! thread decodes the next step while the circuit evaluates the present one.  Prints the seconds as
//! JSON; with ROWS it writes to that file the changes of the result, each with its weight before it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::mpsc::sync_channel;
use std::sync::Mutex;
use std::time::Instant;

use arrow::array::{Array, AsArray, StringArray};
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use dbsp::circuit::CircuitConfig;
use dbsp::dynamic::DynData;
use dbsp::operator::Max;
use dbsp::typed_batch::{IndexedZSetReader, TypedBox};
use dbsp::utils::{Tup2, Tup3, Tup4, Tup5, Tup6, Tup7, Tup8};
use dbsp::{DBData, DBSPHandle, OrdIndexedZSet, OrdZSet, RootCircuit, Runtime, Stream, ZSetHandle};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::ProjectionMask;

#[global_allocator]
static ALLOCATOR: dbsp::mimalloc::MiMalloc = dbsp::mimalloc::MiMalloc;

const EVENTS_OF_STEP: usize = 10_000;
const DAY_MS: u64 = 86_400_000;

/// Where the changes of the result go, if someone compares them.
static ROWS: Mutex<Option<BufWriter<File>>> = Mutex::new(None);

/// Appends a decoded batch to its input.
type Append = Box<dyn FnOnce() + Send>;
/// Decodes the next batch of a table.
type Feed = Box<dyn FnMut() -> Option<Append> + Send>;
type Rows<T> = Stream<RootCircuit, OrdZSet<T>>;

fn open(folder: &str, table: &str, columns: &[&str], rows: usize) -> ParquetRecordBatchReader {
    let file = File::open(format!("{folder}/{table}.parquet")).expect("the table");
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet");
    let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
    let builder = builder.with_projection(mask).with_batch_size(rows);
    builder.build().expect("a reader")
}

fn ints<'a>(batch: &'a RecordBatch, name: &str) -> impl Fn(usize) -> u64 + 'a {
    let column = batch.column_by_name(name).expect("a column");
    let values = column.as_primitive::<Int64Type>().values();
    move |row| values[row] as u64
}

fn texts<'a>(batch: &'a RecordBatch, name: &str) -> impl Fn(usize) -> String + 'a {
    let column: &StringArray = batch
        .column_by_name(name)
        .expect("a column")
        .as_string::<i32>();
    move |row| column.value(row).to_string()
}

/// A table that feeds an input; `row` makes the value of a row, if it is wanted.
fn feed<T: DBData>(
    folder: &str,
    (table, share): (&str, usize),
    columns: &'static [&'static str],
    input: ZSetHandle<T>,
    rows: impl Fn(&RecordBatch, &mut dyn FnMut(T)) + Send + 'static,
) -> Feed {
    let mut reader = open(folder, table, columns, EVENTS_OF_STEP / 50 * share);
    Box::new(move || {
        let batch = reader.next()?.expect("a batch");
        let mut values = Vec::with_capacity(batch.num_rows());
        rows(&batch, &mut |value| values.push(Tup2(value, 1)));
        let input = input.clone();
        Some(Box::new(move || input.append(&mut values)))
    })
}

const BID: (&str, usize) = ("bid", 46);
const AUCTION: (&str, usize) = ("auction", 3);
const PERSON: (&str, usize) = ("person", 1);

/// Takes the rows of the result.
fn sink<T: DBData>(result: &Rows<T>) {
    result.inspect(|changes| {
        if let Some(out) = ROWS.lock().expect("the file").as_mut() {
            for (row, (), weight) in changes.iter() {
                writeln!(out, "{weight} {row:?}").expect("the file");
            }
        }
    });
}

type ShortBid = Tup5<u64, u64, u64, u64, String>;
type Bid = Tup7<u64, u64, u64, String, String, u64, String>;
type Pair = Tup2<u64, u64>;

const SHORT_BID: &[&str] = &["auction", "bidder", "price", "dateTime", "extra"];
const WHOLE_BID: &[&str] = &[
    "auction", "bidder", "price", "channel", "url", "dateTime", "extra",
];

fn short_bids(batch: &RecordBatch, push: &mut dyn FnMut(ShortBid)) {
    let (auction, bidder, price) = (
        ints(batch, "auction"),
        ints(batch, "bidder"),
        ints(batch, "price"),
    );
    let (time, extra) = (ints(batch, "dateTime"), texts(batch, "extra"));
    for i in 0..batch.num_rows() {
        push(Tup5(auction(i), bidder(i), price(i), time(i), extra(i)));
    }
}

fn bids(batch: &RecordBatch, push: &mut dyn FnMut(Bid)) {
    let (auction, bidder, price) = (
        ints(batch, "auction"),
        ints(batch, "bidder"),
        ints(batch, "price"),
    );
    let (channel, url) = (texts(batch, "channel"), texts(batch, "url"));
    let (time, extra) = (ints(batch, "dateTime"), texts(batch, "extra"));
    for i in 0..batch.num_rows() {
        push(Tup7(
            auction(i),
            bidder(i),
            price(i),
            channel(i),
            url(i),
            time(i),
            extra(i),
        ));
    }
}

fn pairs(
    first: &'static str,
    second: &'static str,
) -> impl Fn(&RecordBatch, &mut dyn FnMut(Pair)) + Send {
    move |batch, push| {
        let (first, second) = (ints(batch, first), ints(batch, second));
        (0..batch.num_rows()).for_each(|i| push(Tup2(first(i), second(i))));
    }
}

/// A circuit whose only input are bids.
fn of_bids<T: DBData>(
    folder: &str,
    workers: usize,
    columns: &'static [&'static str],
    rows: impl Fn(&RecordBatch, &mut dyn FnMut(T)) + Send + 'static,
    query: impl Fn(&Rows<T>) + Clone + Send + 'static,
) -> (DBSPHandle, Vec<Feed>) {
    let (circuit, input) = Runtime::init_circuit(CircuitConfig::with_workers(workers), move |c| {
        let (bids, input) = c.add_input_zset::<T>();
        query(&bids);
        Ok(input)
    })
    .expect("a circuit");
    (circuit, vec![feed(folder, BID, columns, input, rows)])
}

/// Counts of all prices and of those below 10,000, below 1,000,000 and from there on; their sum.
fn statistics(price: &u64) -> Tup5<i64, i64, i64, i64, i64> {
    let price = *price as i64;
    let middle = (10_000..1_000_000).contains(&price);
    Tup5(
        1,
        (price < 10_000) as i64,
        middle as i64,
        (price >= 1_000_000) as i64,
        price,
    )
}

/// Counts bids in panes of 2 s and adds five of them; state behind the watermark is dropped.
fn hot_items(bids: &Rows<Pair>) {
    let late: Stream<_, TypedBox<u64, DynData>> = bids
        .map_index(|bid| (bid.1, ()))
        .waterline_monotonic(|| 0, |time| (*time / 2000).saturating_sub(5));
    let panes = bids.map(|bid| Tup2(bid.0, bid.1 / 2000));
    let hops = panes.flat_map_index(|bid| {
        let (auction, pane) = (bid.0, bid.1);
        (pane - 4..=pane).map(move |hop| (Tup2(hop, auction), ()))
    });
    hops.integrate_trace_retain_keys(&late, |key, late| key.0 >= *late);
    let counts = hops.weighted_count();
    let by_hop = counts.map_index(|(key, count)| (key.0, *count));
    by_hop.integrate_trace_retain_keys(&late, |hop, late| *hop >= *late);
    let most = by_hop
        .aggregate(Max)
        .map_index(|(hop, count)| (Tup2(*hop, *count), ()));
    let each = counts.map_index(|(key, count)| (Tup2(key.0, *count), key.1));
    most.integrate_trace_retain_keys(&late, |key, late| key.0 >= *late);
    each.integrate_trace_retain_keys(&late, |key, late| key.0 >= *late);
    sink(&most.join(&each, |key, _, auction| {
        Tup3(*auction, key.1, (key.0 + 5) * 2000)
    }));
}

fn circuit(query: &str, folder: &str, workers: usize) -> (DBSPHandle, Vec<Feed>) {
    match query {
        "q0" => of_bids(folder, workers, SHORT_BID, short_bids, sink),
        "q1" => of_bids(folder, workers, SHORT_BID, short_bids, |bids| {
            sink(&bids.map(|b| Tup5(b.0, b.1, b.2 * 908, b.3, b.4.clone())))
        }),
        "q2" => of_bids(
            folder,
            workers,
            &["auction", "price"],
            pairs("auction", "price"),
            |bids| sink(&bids.filter(|bid| bid.0 % 123 == 0)),
        ),
        "q3" => local_items(folder, workers),
        "q5" => of_bids(
            folder,
            workers,
            &["auction", "dateTime"],
            pairs("auction", "dateTime"),
            hot_items,
        ),
        "q8" => new_users(folder, workers),
        "q17" => of_bids(
            folder,
            workers,
            &["auction", "price", "dateTime"],
            |batch, push: &mut dyn FnMut(Tup3<u64, u64, u64>)| {
                let (auction, price) = (ints(batch, "auction"), ints(batch, "price"));
                let time = ints(batch, "dateTime");
                (0..batch.num_rows()).for_each(|i| push(Tup3(auction(i), price(i), time(i))));
            },
            |bids| {
                let keyed = bids.map_index(|bid| (Tup2(bid.0, bid.2 / DAY_MS), bid.1));
                let sums = keyed.aggregate_linear(statistics);
                let ends = keyed.chain_aggregate(
                    |price, _| Tup2(*price, *price),
                    |ends, price, _| Tup2(ends.0.min(*price), ends.1.max(*price)),
                );
                sink(&sums.join(&ends, |key, sums, ends| {
                    let counts = Tup4(sums.0, sums.1, sums.2, sums.3);
                    Tup4(key.clone(), counts, ends.clone(), sums.4)
                }));
            },
        ),
        "q18" => of_bids(folder, workers, WHOLE_BID, bids, |bids| {
            let last = bids
                .map_index(|b| {
                    let value = Tup5(b.5, b.2, b.6.clone(), b.3.clone(), b.4.clone());
                    (Tup2(b.1, b.0), value)
                })
                .chain_aggregate(|bid, _| bid.clone(), |last, bid, _| last.max(bid.clone()));
            sink(&last.map(|(key, b)| {
                Tup7(
                    key.1,
                    key.0,
                    b.1,
                    b.3.clone(),
                    b.4.clone(),
                    b.0,
                    b.2.clone(),
                )
            }));
        }),
        "q19" => of_bids(folder, workers, WHOLE_BID, bids, |bids| {
            let best = bids
                .map_index(|b| {
                    let value = Tup6(b.2, !b.5, !b.1, b.6.clone(), b.3.clone(), b.4.clone());
                    (b.0, value)
                })
                .topk_desc(10);
            sink(&best.map(|(auction, b)| {
                Tup7(
                    *auction,
                    !b.2,
                    b.0,
                    b.4.clone(),
                    b.5.clone(),
                    !b.1,
                    b.3.clone(),
                )
            }));
        }),
        "q20" => bids_with_auctions(folder, workers),
        "q22" => of_bids(
            folder,
            workers,
            &["auction", "bidder", "price", "channel", "url"],
            |batch, push: &mut dyn FnMut(Tup5<u64, u64, u64, String, String>)| {
                let (auction, bidder) = (ints(batch, "auction"), ints(batch, "bidder"));
                let (price, channel) = (ints(batch, "price"), texts(batch, "channel"));
                let url = texts(batch, "url");
                for i in 0..batch.num_rows() {
                    push(Tup5(auction(i), bidder(i), price(i), channel(i), url(i)));
                }
            },
            |bids| {
                sink(&bids.map(|b| {
                    let mut parts = b.4.split('/').skip(3);
                    let mut part = || parts.next().unwrap_or_default().to_string();
                    Tup7(b.0, b.1, b.2, b.3.clone(), part(), part(), part())
                }))
            },
        ),
        _ => panic!("{query} is no query of this program"),
    }
}

fn local_items(folder: &str, workers: usize) -> (DBSPHandle, Vec<Feed>) {
    let (circuit, (persons, auctions)) =
        Runtime::init_circuit(CircuitConfig::with_workers(workers), move |c| {
            let (people, persons) = c.add_input_zset::<Tup4<u64, String, String, String>>();
            let (items, auctions) = c.add_input_zset::<Pair>();
            let people = people.map_index(|p| (p.0, Tup3(p.1.clone(), p.2.clone(), p.3.clone())));
            let items = items.map_index(|item| (item.1, item.0));
            sink(&people.join(&items, |_, p, id| {
                Tup4(p.0.clone(), p.1.clone(), p.2.clone(), *id)
            }));
            Ok((persons, auctions))
        })
        .expect("a circuit");
    let feeds = vec![
        feed(
            folder,
            PERSON,
            &["id", "name", "city", "state"],
            persons,
            |batch, push| {
                let (id, name) = (ints(batch, "id"), texts(batch, "name"));
                let (city, state) = (texts(batch, "city"), texts(batch, "state"));
                for i in 0..batch.num_rows() {
                    if matches!(state(i).as_str(), "OR" | "ID" | "CA") {
                        push(Tup4(id(i), name(i), city(i), state(i)));
                    }
                }
            },
        ),
        feed(
            folder,
            AUCTION,
            &["id", "seller", "category"],
            auctions,
            |batch, push| {
                let (id, seller) = (ints(batch, "id"), ints(batch, "seller"));
                let category = ints(batch, "category");
                let chosen = (0..batch.num_rows()).filter(|i| category(*i) == 10);
                chosen.for_each(|i| push(Tup2(id(i), seller(i))));
            },
        ),
    ];
    (circuit, feeds)
}

fn new_users(folder: &str, workers: usize) -> (DBSPHandle, Vec<Feed>) {
    let (circuit, (persons, auctions)) =
        Runtime::init_circuit(CircuitConfig::with_workers(workers), move |c| {
            let (people, persons) = c.add_input_zset::<Tup3<u64, String, u64>>();
            let (items, auctions) = c.add_input_zset::<Pair>();
            let people = people
                .map(|p| Tup3(p.0, p.1.clone(), p.2 / 10_000))
                .distinct()
                .map_index(|p| (Tup2(p.2, p.0), p.1.clone()));
            let sellers = items
                .map(|item| Tup2(item.1 / 10_000, item.0))
                .distinct()
                .map_index(|key| (key.clone(), ()));
            sink(&people.join(&sellers, |key, name, ()| {
                Tup3(key.1, name.clone(), key.0 * 10_000)
            }));
            Ok((persons, auctions))
        })
        .expect("a circuit");
    let feeds = vec![
        feed(
            folder,
            PERSON,
            &["id", "name", "dateTime"],
            persons,
            |batch, push| {
                let (id, name) = (ints(batch, "id"), texts(batch, "name"));
                let time = ints(batch, "dateTime");
                (0..batch.num_rows()).for_each(|i| push(Tup3(id(i), name(i), time(i))));
            },
        ),
        feed(
            folder,
            AUCTION,
            &["seller", "dateTime"],
            auctions,
            pairs("seller", "dateTime"),
        ),
    ];
    (circuit, feeds)
}

fn bids_with_auctions(folder: &str, workers: usize) -> (DBSPHandle, Vec<Feed>) {
    type Item = Tup4<u64, Tup2<String, String>, Tup6<u64, u64, u64, u64, u64, u64>, String>;
    let (circuit, (offers, auctions)) =
        Runtime::init_circuit(CircuitConfig::with_workers(workers), move |c| {
            let (offered, offers) = c.add_input_zset::<Bid>();
            let (items, auctions) = c.add_input_zset::<Item>();
            let items = items.map_index(|item| (item.0, item.clone()));
            let offered = offered.map_index(|b| {
                let value = Tup6(b.1, b.2, b.3.clone(), b.4.clone(), b.5, b.6.clone());
                (b.0, value)
            });
            sink(&offered.join(&items, |auction, bid, item| {
                Tup5(
                    *auction,
                    bid.clone(),
                    item.1.clone(),
                    item.2.clone(),
                    item.3.clone(),
                )
            }));
            Ok((offers, auctions))
        })
        .expect("a circuit");
    const COLUMNS: &[&str] = &[
        "id",
        "itemName",
        "description",
        "initialBid",
        "reserve",
        "dateTime",
        "expires",
        "seller",
        "category",
        "extra",
    ];
    let feeds = vec![
        feed(folder, BID, WHOLE_BID, offers, bids),
        feed(folder, AUCTION, COLUMNS, auctions, |batch, push| {
            let (id, name) = (ints(batch, "id"), texts(batch, "itemName"));
            let (description, extra) = (texts(batch, "description"), texts(batch, "extra"));
            let (initial, reserve) = (ints(batch, "initialBid"), ints(batch, "reserve"));
            let (time, expires) = (ints(batch, "dateTime"), ints(batch, "expires"));
            let (seller, category) = (ints(batch, "seller"), ints(batch, "category"));
            for i in (0..batch.num_rows()).filter(|i| category(*i) == 10) {
                let numbers = Tup6(
                    initial(i),
                    reserve(i),
                    time(i),
                    expires(i),
                    seller(i),
                    category(i),
                );
                push(Tup4(
                    id(i),
                    Tup2(name(i), description(i)),
                    numbers,
                    extra(i),
                ));
            }
        }),
    ];
    (circuit, feeds)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [query, folder, workers, rows @ ..] = arguments.as_slice() else {
        panic!("dbsp_nexmark QUERY FOLDER WORKERS [ROWS]");
    };
    if let [path] = rows {
        let file = File::create(path).expect("the file of the rows");
        *ROWS.lock().expect("the file") = Some(BufWriter::new(file));
    }
    let workers = workers.parse().expect("a number of workers");
    let (mut circuit, mut feeds) = circuit(query, folder, workers);
    let begun = Instant::now();
    let (taken, wait_taken) = sync_channel::<()>(1);
    let (decoded, wait_decoded) = sync_channel::<Vec<Append>>(1);
    let decoder = std::thread::spawn(move || loop {
        let step: Vec<Append> = feeds.iter_mut().filter_map(|feed| feed()).collect();
        let is_end = step.is_empty();
        if decoded.send(step).is_err() || is_end || wait_taken.recv().is_err() {
            break;
        }
    });
    loop {
        let step = wait_decoded.recv().expect("the decoder");
        if step.is_empty() {
            break;
        }
        step.into_iter().for_each(|append| append());
        taken.send(()).expect("the decoder");
        circuit.transaction().expect("a step");
    }
    let seconds = begun.elapsed().as_secs_f64();
    decoder.join().expect("the decoder");
    if let Some(out) = ROWS.lock().expect("the file").as_mut() {
        out.flush().expect("the file of the rows");
    }
    println!("{{\"seconds\": {seconds}}}");
    // Freeing the state takes longer than some queries.
    std::process::exit(0);
}
