//! `kumiki mem --touch`: what page tables cost a rank that uses the memory of many neighbours.
//!
//! The first rank of each node touches the others, one kind of memory after the other, and reads its ledger before and
//! after each. It writes its figures to a file in memory that it inherits, as `kumiki mem` has for those of init.

use super::Outcome;
use crate::chart::bytes_text;
use kumiki::{GlobalAddress, GlobalPtr, World};
use serde_json::{json, Value};
use std::ffi::OsString;
use std::os::unix::fs::FileExt;

/// Bytes of the file for each rank.
pub(crate) const LINE_BYTES: u64 = 512;
/// The heap that each rank has for the others to touch: one that counts as small.
const HEAP_BYTES: usize = 60 << 10;
const PAGE_BYTES: usize = 4096;
/// What is allocated in each pool.
const BLOCK_BYTES: u64 = 1000;
/// The words of starter memory that are used: where the heap is, and one to write to.
const STARTER_BYTES: u64 = 16;

/// What a neighbour may cost whose starter memory is used, and one whose heap and pool are, too. A page table is a page, so
/// this is said of a thousand of them.
const STARTER_BUDGET_BYTES: f64 = 64.0;
const SMALL_BUDGET_BYTES: f64 = 1024.0;
const MANY: u64 = 1000;

/// Parses how many neighbours are touched.
pub(crate) fn count(text: &str) -> Result<u32, String> {
    match text {
        "all" => Ok(u32::MAX),
        text => {
            text.parse().ok().filter(|&n| n > 0).ok_or_else(|| "write `all`, or a number such as 100".into())
        }
    }
}

/// What `kumiki rank` must be given to touch so many neighbours and write the figures to a descriptor.
pub(crate) fn words(count: u32, descriptor: i32) -> Vec<OsString> {
    let mut words = super::rank::words("touch");
    words.extend([count.to_string().into(), descriptor.to_string().into()]);
    words
}

/// The work of a rank.
pub(crate) fn rank(words: Vec<OsString>) -> Outcome {
    let number =
        |index: usize| words.get(index).and_then(|word: &OsString| word.to_str()?.parse::<u32>().ok());
    let (Some(count), Some(descriptor)) = (number(0), number(1)) else {
        return Err("`kumiki rank touch` is started by `kumiki mem`".into());
    };
    // The descriptor is inherited; by its name nothing must be vouched for.
    let file = std::fs::OpenOptions::new().write(true).open(format!("/proc/self/fd/{descriptor}"));
    let file = file.map_err(|error| format!("cannot open the file for the measurements: {error}"))?;
    work(count, &file).map(|()| 0).map_err(|error| error.to_string())
}

fn work(count: u32, file: &std::fs::File) -> kumiki::Result<()> {
    let world = World::init()?;
    if world.starter_bytes() < STARTER_BYTES as usize {
        world.abort(&format!("kumiki mem --touch needs {STARTER_BYTES} bytes of starter memory"));
    }
    let heap = world.alloc::<u8>(HEAP_BYTES)?;
    world.put(world.starter::<u64>(world.rank())?, heap.address().bits())?;
    world.sync()?;
    let here = world.node_ranks();
    if here.first() == Some(&world.rank()) {
        let neighbours: Vec<u32> = here.into_iter().skip(1).take(count as usize).collect();
        let figures = touch(&world, &neighbours)?;
        let line = json!({"node": world.node(), "neighbours": neighbours.len(), "page_tables": figures});
        // A figure that is not written is missed by whoever reads.
        let _ = file.write_all_at(format!("{line}\n").as_bytes(), world.rank() as u64 * LINE_BYTES);
    }
    world.sync()?;
    world.finalize()
}

/// Bytes of page tables before anything is touched, and then after starter memory, heaps and pools.
fn touch(world: &World, neighbours: &[u32]) -> kumiki::Result<[u64; 4]> {
    let page_tables = || world.ledger().page_table_bytes;
    let each = |touch: &dyn Fn(u32) -> kumiki::Result<()>| {
        neighbours.iter().try_for_each(|&rank| touch(rank)).map(|()| page_tables())
    };
    // The first reading touches what reading touches.
    let _ = page_tables();
    Ok([
        page_tables(),
        each(&|rank| world.put(world.starter::<u64>(rank)?.add(1), 1))?,
        each(&|rank| {
            let heap = GlobalAddress::from_bits(world.get(world.starter::<u64>(rank)?)?);
            let mut pages = (0..HEAP_BYTES).step_by(PAGE_BYTES);
            pages.try_for_each(|at| world.put(GlobalPtr::from_address(heap.add(at as u64)), 1u8))
        })?,
        each(&|rank| {
            let block = world.malloc(BLOCK_BYTES as usize, rank)?;
            world.put(GlobalPtr::from_address(block), 1u64)?;
            world.free(block)
        })?,
    ])
}

/// The figures of the rank that paid the most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Touched {
    neighbours: u64,
    before: u64,
    starter: u64,
    heap: u64,
    pool: u64,
}

impl Touched {
    /// From the lines that the ranks have written.
    pub(crate) fn new(lines: &[Value]) -> Result<Touched, String> {
        let of = |line: &Value| {
            let page_tables: Vec<u64> =
                line["page_tables"].as_array()?.iter().filter_map(Value::as_u64).collect();
            let [before, starter, heap, pool] = page_tables[..] else { return None };
            let neighbours = line["neighbours"].as_u64()?;
            Some(Touched {
                neighbours,
                before,
                starter: starter.saturating_sub(before),
                heap: heap.saturating_sub(starter),
                pool: pool.saturating_sub(heap),
            })
        };
        let touched = lines.iter().filter_map(of).max_by_key(|touched| touched.starter);
        touched.ok_or_else(|| "no rank has said what touching its neighbours cost".into())
    }

    /// What each neighbour costs.
    fn each(&self, bytes: u64) -> f64 {
        bytes as f64 / self.neighbours.max(1) as f64
    }

    pub(crate) fn json(&self) -> Value {
        let part = |bytes: u64| json!({"bytes": bytes, "bytes_per_neighbour": self.each(bytes)});
        json!({
            "neighbours": self.neighbours,
            "page_table_bytes_before": self.before,
            "page_table_bytes_after": self.before + self.starter + self.heap + self.pool,
            "starter": part(self.starter),
            "heap": part(self.heap),
            "pool": part(self.pool),
        })
    }

    pub(crate) fn table(&self) -> String {
        let Touched { neighbours, before, starter, heap, pool } = *self;
        let after = bytes_text((before + starter + heap + pool) as f64);
        let mut text = format!(
            "page tables of a rank that touches {neighbours} neighbours: {} before, {after} after\n\n{:<34}{:>10}{:>10}{:>10}\n",
            bytes_text(before as f64),
            "",
            "bytes",
            "each",
            "budget",
        );
        let small = starter + heap + pool;
        let rows = [
            ("starter memory", starter, Some(STARTER_BUDGET_BYTES)),
            ("heap of 60 KiB, every page", heap, None),
            ("pool, malloc and free", pool, None),
            ("all of a small neighbour", small, Some(SMALL_BUDGET_BYTES)),
        ];
        for (name, bytes, budget) in rows {
            let verdict = budget.filter(|_| neighbours >= MANY - 1).map_or(String::new(), |budget| {
                let verdict = if self.each(bytes) <= budget { "OK" } else { "over" };
                format!("{:>10}  {verdict}", bytes_text(budget))
            });
            let row = format!(
                "{name:<34}{:>10}{:>10}{verdict}",
                bytes_text(bytes as f64),
                bytes_text(self.each(bytes))
            );
            text += &(row.trim_end().to_string() + "\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_touching_become_bytes_for_each_neighbour() {
        let line = |neighbours: u64, starter: u64| {
            json!({"node": 0, "neighbours": neighbours,
                   "page_tables": [4096, 4096 + starter, 4096 + starter + 1000, 4096 + starter + 3000]})
        };
        let touched = Touched::new(&[line(1000, 24_000), line(1000, 32_000)]).unwrap();
        assert_eq!(
            touched,
            Touched { neighbours: 1000, before: 4096, starter: 32_000, heap: 1000, pool: 2000 }
        );
        assert_eq!(touched.json()["starter"]["bytes_per_neighbour"], 32.0);
        assert_eq!(touched.json()["page_table_bytes_after"], 39_096);
        assert_eq!(touched.table().matches("OK").count(), 2, "{}", touched.table());
        let over = Touched { starter: 9_000_000, ..touched }.table();
        assert_eq!(over.matches("over").count(), 2, "{over}");
        assert!(!Touched { neighbours: 1, ..touched }.table().contains("over"), "one page table is a page");
        assert!(Touched::new(&[]).is_err() && Touched::new(&[json!({"page_tables": [1]})]).is_err());
    }

    #[test]
    fn how_many_neighbours_is_all_or_a_number() {
        assert_eq!((count("all"), count("7")), (Ok(u32::MAX), Ok(7)));
        assert!(count("0").is_err() && count("-1").is_err() && count("some").is_err());
    }
}
