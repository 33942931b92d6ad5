//! Regions and copies beyond 4 GiB.

use crate::job::Job;
use crate::stage::{patterned, Stage};
use crate::way;
use kumiki::raw;
use libtest_mimic::Trial;

const FOUR_GIB: u64 = 1 << 32;
const SPARSE_BYTES: usize = (5 << 30) + 4096;

/// Memory of the system that takes room only where it is touched.
struct Sparse(*mut u8);

impl Sparse {
    fn new() -> Sparse {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a new mapping at a place of the system's choice touches no memory of ours.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), SPARSE_BYTES, protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        Sparse(start.cast())
    }
}

impl Drop for Sparse {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and was unregistered before.
        unsafe { libc::munmap(self.0.cast(), SPARSE_BYTES) };
    }
}

/// Addresses on both sides of 4 GiB in one region are different places, for everybody.
pub(crate) fn far_offsets(stage: &Stage) {
    let memory = Sparse::new();
    // SAFETY: the mapping lives until after `unregister_raw`, and is touched through the library only.
    let key =
        unsafe { raw::memory(&stage.world).register_raw(memory.0, SPARSE_BYTES, 1) }.expect("register 5 GiB");
    let keys = stage.exchange(key.address);
    let places = |caller: u32| {
        [64, FOUR_GIB - 48, FOUR_GIB + 64, SPARSE_BYTES as u64 - 4096].map(|p| p + 8 * caller as u64)
    };
    for (rank, base) in keys.iter().enumerate() {
        for place in places(stage.me()) {
            stage.write(base.add(place), &[place ^ (rank as u64) << 40]);
        }
    }
    stage.sync();
    for (rank, base) in keys.iter().enumerate() {
        for place in (0..stage.ranks()).flat_map(places) {
            assert_eq!(
                stage.word(base.add(place)),
                place ^ (rank as u64) << 40,
                "at {place:#x} of rank {rank}"
            );
        }
    }
    stage.sync();
    // A third-party copy across the 4 GiB line, at odd places.
    let (from, to) = (stage.me() as usize, (stage.me() as usize + 1) % keys.len());
    let data = patterned(stage.me() as u64, 10_000);
    stage.write(keys[from].add(FOUR_GIB - 5001), &data);
    stage.sync();
    let by = (stage.me() as usize + 2) % keys.len();
    let next = (by + 1) % keys.len();
    stage
        .copied(keys[next].add(2 * FOUR_GIB / 2 + (1 << 20) + 1), keys[by].add(FOUR_GIB - 5001), 10_000)
        .expect("copy");
    stage.sync();
    let found: Vec<u8> = stage.read(keys[to].add(FOUR_GIB + (1 << 20) + 1), 10_000);
    assert_eq!(found, data);
    let error =
        stage.copied(keys[to].add(SPARSE_BYTES as u64 - 1), key.address, 2).expect_err("past the end");
    assert!(matches!(error, kumiki::Error::Bounds { .. }), "{error}");
    stage.sync();
    raw::memory(&stage.world).unregister_raw(key).expect("unregister");
}

/// One copy of more than 4 GiB, from sparse memory into the arena.
pub(crate) fn huge_copy(stage: &Stage) {
    let memory = Sparse::new();
    // SAFETY: as above.
    let key =
        unsafe { raw::memory(&stage.world).register_raw(memory.0, SPARSE_BYTES, 1) }.expect("register 5 GiB");
    let bytes = FOUR_GIB + 12_345;
    let marks = [0, 8, FOUR_GIB - 8, FOUR_GIB, FOUR_GIB + 8000, bytes - 9];
    let keys = stage.exchange(key.address);
    if stage.me() == 1 {
        for mark in marks {
            stage.write(key.address.add(mark), &[!mark]);
        }
    }
    stage.sync();
    if stage.me() == 0 {
        let target = stage.world.alloc::<u8>(bytes as usize).expect("arena memory of 4 GiB");
        stage.copied(target.address(), keys[1], bytes).expect("a copy of 4 GiB");
        for mark in marks {
            assert_eq!(stage.word(target.address().add(mark)), !mark, "at {mark:#x}");
        }
        for step in 1..1000 {
            let at = (step * (bytes / 1000)) & !7;
            assert_eq!(stage.word(target.address().add(at)), 0, "at {at:#x}");
        }
    }
    stage.sync();
    raw::memory(&stage.world).unregister_raw(key).expect("unregister");
}

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &'static str| {
        Trial::test(format!("{name}::huge_copy"), move || {
            let available = available_bytes();
            if available < 3 * FOUR_GIB {
                println!(
                    "{name}::huge_copy skipped: it needs 12 GiB of memory, {} MiB are left",
                    available >> 20
                );
                return Ok(());
            }
            Job::new(way::named(name), "huge_copy", 2).run().success()
        })
    };
    ["private", "tcp"].map(trial).into()
}

/// Memory that the machine has left.
fn available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}
