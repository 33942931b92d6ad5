//! What the ranks of every topic share: the world, memory of the way's kind, and telling each other addresses.

use crate::way::{self, Memory, ProcessVm, Way, SIMULATED};
use crate::{other_body, Body, TOPICS};
use kumiki::{GlobalAddress, GlobalPtr, Handle, Order, Region, Registered, Result, World};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use std::process::ExitCode;

/// Starter memory below this is for [`Stage::exchange`]; topics use what is above.
pub(crate) const FIRST_FREE: u64 = 64;

/// A rank of a topic.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) way: &'static Way,
}

/// The body of a rank.
pub(crate) fn rank(way: &str, topic: &str) -> ExitCode {
    let way = way::named(way);
    if way.process_vm == ProcessVm::Refused {
        refuse_process_vm();
    }
    let listed = TOPICS.iter().find(|entry| entry.name == topic);
    let other = other_body(topic);
    let body = listed.map(|entry| &entry.body).or(other.as_ref());
    match body {
        None => panic!("there is no topic {topic}"),
        Some(Body::Process(body)) => body(way),
        Some(Body::World(body)) => {
            let stage = Stage { world: World::init().expect("init"), way };
            body(&stage);
            stage.world.finalize().expect("finalize");
        }
    }
    ExitCode::SUCCESS
}

/// Makes the system refuse `process_vm_readv` and `process_vm_writev` in this process, as containers do.
fn refuse_process_vm() {
    let statement = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut program = [
        // The number of the system call is the first word of what a filter sees.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, libc::SYS_process_vm_readv as u32),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_process_vm_writev as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, refused),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the filter and its program live until the call returns; the kernel copies them.
    let installed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) == 0
    };
    assert!(installed, "a system call filter: {}", std::io::Error::last_os_error());
}

impl Stage {
    /// Does several things at once, each in a thread of its own; one after the other where a rank has one thread only.
    pub(crate) fn at_once<'a>(&self, things: impl IntoIterator<Item = Box<dyn FnOnce() + Send + 'a>>) {
        if self.way.nodes == SIMULATED {
            return things.into_iter().for_each(|thing| thing());
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> = things.into_iter().map(|thing| scope.spawn(thing)).collect();
            threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
        });
    }
}

/// Memory of a rank that all can address.
pub(crate) enum Block {
    Arena(Region<u64>),
    Private(Registered<u64>),
}

impl Block {
    /// Zeroed memory of at least `bytes`.
    pub(crate) fn new(world: &World, memory: Memory, bytes: usize) -> Block {
        let words = bytes.div_ceil(8);
        match memory {
            Memory::Arena => Block::Arena(world.alloc(words).expect("arena memory")),
            Memory::Private => Block::Private(world.register(vec![0; words]).expect("private memory")),
        }
    }

    pub(crate) fn address(&self) -> GlobalAddress {
        match self {
            Block::Arena(region) => region.address(),
            Block::Private(registered) => registered.address(),
        }
    }
}

impl Stage {
    pub(crate) fn me(&self) -> u32 {
        self.world.rank()
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.world.ranks()
    }

    /// Every rank but this one, beginning with the next.
    pub(crate) fn others(&self) -> impl Iterator<Item = u32> {
        let (me, ranks) = (self.me(), self.ranks());
        (1..ranks).map(move |step| (me + step) % ranks)
    }

    pub(crate) fn sync(&self) {
        self.world.sync().expect("sync");
    }

    /// Memory of the kind that this way is about.
    pub(crate) fn block(&self, bytes: usize) -> Block {
        Block::new(&self.world, self.way.memory, bytes)
    }

    /// Tells all ranks a word, and gives what each of them told. All ranks must call it.
    pub(crate) fn exchange_word(&self, word: u64) -> Vec<u64> {
        let starter = |rank| self.world.starter::<u64>(rank).expect("starter memory");
        self.world.put(starter(self.me()), word).expect("put to own starter memory");
        self.sync();
        let words =
            (0..self.ranks()).map(|rank| self.world.get(starter(rank)).expect("get a word")).collect();
        self.sync();
        words
    }

    /// Tells all ranks an address, and gives what each of them told.
    pub(crate) fn exchange(&self, address: GlobalAddress) -> Vec<GlobalAddress> {
        self.exchange_word(address.bits()).into_iter().map(GlobalAddress::from_bits).collect()
    }

    /// The free starter memory of a rank.
    pub(crate) fn starter(&self, rank: u32) -> GlobalPtr<u64> {
        self.world.starter::<u64>(rank).expect("starter memory").add((FIRST_FREE / 8) as usize)
    }

    /// A copy without order.
    pub(crate) fn copy(&self, dst: GlobalAddress, src: GlobalAddress, bytes: u64) -> Handle {
        self.world.copy(dst, src, bytes as usize, Order::None).expect("copy")
    }

    /// A copy that is complete when this returns, or how it failed.
    pub(crate) fn copied(&self, dst: GlobalAddress, src: GlobalAddress, bytes: u64) -> Result<()> {
        self.world.copy(dst, src, bytes as usize, Order::None).and_then(|handle| self.world.complete(handle))
    }

    pub(crate) fn complete_all(&self) {
        self.world.complete_all().expect("complete all");
    }

    pub(crate) fn write<T: kumiki::Pod>(&self, to: GlobalAddress, values: &[T]) {
        self.world.put_slice(GlobalPtr::from_address(to), values).expect("write");
    }

    pub(crate) fn read<T: kumiki::Pod>(&self, from: GlobalAddress, count: usize) -> Vec<T> {
        let mut values = vec![T::zeroed(); count];
        self.world.get_slice(GlobalPtr::from_address(from), &mut values).expect("read");
        values
    }

    /// Every block of every rank was freed. All ranks must call it.
    pub(crate) fn expect_all_freed(&self) {
        self.sync();
        let heap = self.world.heap_use(self.me()).expect("heap_use");
        assert_eq!((heap.blocks, heap.used_bytes), (0, 0), "rank {} has memory that nobody frees", self.me());
        self.sync();
    }

    /// Runs cases that are the same in every run, and differ from rank to rank and by `seed`.
    pub(crate) fn cases<T: std::fmt::Debug>(
        &self,
        count: u32,
        seed: [u8; 2],
        strategy: impl Strategy<Value = T>,
        test: impl Fn(T) -> std::result::Result<(), TestCaseError>,
    ) {
        let config = Config { cases: count, failure_persistence: None, ..Config::default() };
        let mut bytes = [self.me() as u8 + 1; 32];
        bytes[..2].copy_from_slice(&seed);
        let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
        runner.run(&strategy, test).unwrap_or_else(|error| panic!("rank {}: {error}", self.me()));
    }

    pub(crate) fn word(&self, from: GlobalAddress) -> u64 {
        self.world.get(GlobalPtr::from_address(from)).expect("read a word")
    }
}

/// A place in 0 to `end`.
pub(crate) fn part(fraction: u16, end: usize) -> usize {
    (fraction as usize * (end + 1)) >> 16
}

/// A byte that depends on everything.
pub(crate) fn pattern(seed: u64, index: usize) -> u8 {
    let mixed = (seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_add(index as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 29) as u8
}

/// Bytes that depend on a seed and their place.
pub(crate) fn patterned(seed: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| pattern(seed, index)).collect()
}

/// Fails with the first difference.
pub(crate) fn assert_same(found: &[u8], wanted: &[u8], what: impl Fn() -> String) {
    assert_eq!(found.len(), wanted.len(), "{}", what());
    if let Some(at) = (0..found.len()).find(|&at| found[at] != wanted[at]) {
        let count = (0..found.len()).filter(|&at| found[at] != wanted[at]).count();
        panic!(
            "{}: byte {at} is {:#x}, it should be {:#x}; {count} of {} bytes differ",
            what(),
            found[at],
            wanted[at],
            found.len()
        );
    }
}
