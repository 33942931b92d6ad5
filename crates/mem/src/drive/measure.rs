//! What joining a world costs a process, as the kernel counts it: for `kumiki mem`.
//!
//! When `KUMIKI_MEASURE_FD` names a file, a rank writes one line of JSON into it after init, at `rank` × 512: its private
//! memory and page tables before and after, and the time it took.

use crate::drive::world::World;
use crate::node::ledger::Purpose;
use crate::Result;
use kumiki_net::environment;
use kumiki_net::os::{descriptor, time};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// The kernel's figures for this process, in bytes.
#[derive(Clone, Copy, Default, Debug)]
struct Figures {
    private: u64,
    pss: u64,
    page_tables: u64,
}

/// Bytes of the file for each rank.
const LINE_BYTES: u64 = 512;

/// A measurement that has begun.
pub(crate) struct Measurement {
    place: OwnedFd,
    before: Figures,
    started_ns: u64,
}

impl Measurement {
    /// Begins to measure, if somebody asked for it. (Apart from its callers, as `finish` is: a page to read into on the stack of
    /// joining is a page more that every rank has, whether it is measured or not.)
    #[inline(never)]
    pub(crate) fn begin() -> Option<Measurement> {
        // Only once: afterwards the number may be that of a descriptor of the program.
        static BEGUN: AtomicBool = AtomicBool::new(false);
        if BEGUN.swap(true, Ordering::Relaxed) {
            return None;
        }
        let number = environment::number("KUMIKI_MEASURE_FD").ok().flatten()?;
        let place = descriptor::adopt(number as i32).ok()?;
        // The first reading touches what reading touches; the second is the one that counts.
        let _ = Figures::now();
        Some(Measurement { place, before: Figures::now(), started_ns: time::now_ns() })
    }

    /// Ends it when every rank is there and nobody has gone yet.
    #[inline(never)]
    pub(crate) fn finish(self, world: &World) -> Result<()> {
        let nanoseconds = time::now_ns() - self.started_ns;
        world.sync()?;
        let after = Figures::now();
        let ledger = world.ledger();
        let line = format!(
            "{{\"rank\":{},\"private_before\":{},\"private_after\":{},\"page_tables_before\":{},\"page_tables_after\":{},\
             \"pss\":{},\"ledger_private\":{},\"ledger_arena\":{},\"ledger_control\":{},\"node\":{},\"init_ns\":{nanoseconds}}}\n",
            world.rank(),
            self.before.private,
            after.private,
            self.before.page_tables,
            after.page_tables,
            after.pss,
            ledger.private_bytes(),
            ledger.arena_bytes(),
            ledger.of(Purpose::ArenaControl),
            world.node(),
        );
        // Each rank has a place of its own, so that nobody needs to wait for anybody.
        let place = std::fs::File::from(self.place);
        let _ = place.write_all_at(line.as_bytes(), world.rank() as u64 * LINE_BYTES);
        world.sync()
    }
}

impl Figures {
    #[inline(never)]
    fn now() -> Figures {
        let mut buffer = [0u8; 4096];
        let rollup = read_into("/proc/self/smaps_rollup", &mut buffer);
        let mut figures = Figures {
            // Not Private_Dirty: that counts pages of files, too, as long as nobody else has mapped them or they have
            // not been written to the disk, such as those of a program just built; and the arena's, which is booked.
            private: kib(rollup, "Anonymous:"),
            pss: kib(rollup, "Pss:"),
            page_tables: 0,
        };
        let status = read_into("/proc/self/status", &mut buffer);
        figures.page_tables = kib(status, "VmPTE:");
        figures
    }
}

/// Bytes of page tables of this process.
#[inline(never)]
pub(crate) fn page_table_bytes() -> u64 {
    let mut buffer = [0u8; 4096];
    kib(read_into("/proc/self/status", &mut buffer), "VmPTE:")
}

fn read_into<'a>(path: &str, buffer: &'a mut [u8]) -> &'a str {
    let length =
        std::fs::File::open(path).and_then(|mut file| std::io::Read::read(&mut file, buffer)).unwrap_or(0);
    std::str::from_utf8(&buffer[..length]).unwrap_or("")
}

/// The figure of a line like `Pss:   12 kB`, in bytes.
fn kib(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_what_this_process_takes() {
        let figures = Figures::now();
        assert!(figures.private > 4096 && figures.pss > 4096 && figures.page_tables > 0, "{figures:?}");
        assert_eq!(kib("Pss:                  12 kB\n", "Pss:"), 12 * 1024);
    }
}
