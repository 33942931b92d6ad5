//! Ranks that ask for more than there is.

use super::{kind, report, say};
use kumiki::{AtomicOp, GlobalAddress, Is, Order, Result, Wait, World};
use std::time::Duration;

/// Takes memory until the budget is used up, gives it back, and takes some again.
pub(crate) fn budget() -> Result<()> {
    let world = World::init()?;
    let mut taken = Vec::new();
    let error = loop {
        match world.alloc::<u8>(256 << 10) {
            Ok(region) => taken.push(region),
            Err(error) => break error,
        }
    };
    say(&format!("full {} {} {error}", taken.len(), kind(&error)));
    taken.clear();
    let again = world.alloc::<u64>(32 << 10)?;
    let next = (world.rank() + 1) % world.ranks();
    world.put(world.starter::<u64>(next)?, again.address().bits())?;
    world.sync()?;
    let theirs = kumiki::GlobalAddress::from_bits(world.get(world.starter::<u64>(world.rank())?)?);
    world.put(kumiki::GlobalPtr::from_address(theirs), 77u64)?;
    world.sync()?;
    let mut found = [0];
    again.read(0, &mut found)?;
    say(&format!("after {}", found[0]));
    world.finalize()
}

/// What a program keeps: its world is dropped before the memory that others write.
struct App {
    world: World,
    field: kumiki::Registered<u64>,
    /// Keeps what the library has of the world, as any other region of a program does.
    _table: kumiki::Region<u64>,
}

/// Rank 1 meets an error, and frees its registered memory after its world; rank 0 goes on writing there.
pub(crate) fn outlive() -> Result<()> {
    let world = World::init()?;
    if world.rank() == 0 {
        world.sync()?;
        let field = kumiki::GlobalAddress::from_bits(world.get(world.starter::<u64>(0)?)?);
        let field = kumiki::GlobalPtr::<u64>::from_address(field);
        world.put(field, 1)?;
        say("wrote");
        super::wait_for_word();
        report("put", &world.put(field, 2));
        world.abort("enough");
    }
    // So little that the allocator keeps the page: a write after it was freed would succeed.
    let field = world.register(vec![0u64; 64])?;
    world.put(world.starter::<u64>(0)?, field.address().bits())?;
    let app = App { _table: world.alloc(8)?, field, world };
    app.world.sync()?;
    while app.world.get(app.field.ptr())? == 0 {
        std::thread::yield_now();
    }
    let wrong = app.world.get(app.field.ptr().add(64));
    let App { world, field, _table } = app;
    drop(world);
    drop(field);
    say(&format!("freed {}", wrong.is_err()));
    super::sleep_forever()
}

/// Rank 1 has memory of rank 0 in view until it is killed; rank 0 frees it, and uses it again when rank 1 is gone.
pub(crate) fn viewer() -> Result<()> {
    const WORDS: usize = 1 << 16;
    let world = World::init()?;
    let heap = |world: &World| world.ledger().of(kumiki::Purpose::Heap);
    let region = (world.rank() == 0).then(|| world.alloc::<u64>(WORDS)).transpose()?;
    if let Some(region) = &region {
        world.put(world.starter::<u64>(0)?, region.address().bits())?;
    }
    world.sync()?;
    if region.is_none() {
        let address = kumiki::GlobalAddress::from_bits(world.get(world.starter::<u64>(0)?)?);
        let view = world.view(kumiki::GlobalPtr::<u64>::from_address(address), WORDS)?;
        view.store(WORDS - 1, 1)?;
        world.sync()?;
        super::sleep_forever();
    }
    world.sync()?;
    drop(region);
    say(&format!("held {}", heap(&world)));
    super::wait_for_word();
    // Until the agent has said that rank 1 is lost the memory stays.
    while heap(&world) != 0 {
        drop(world.alloc::<u64>(1)?);
        std::thread::yield_now();
    }
    say("free");
    world.abort("enough");
}

/// Everybody waits for a word that rank 1 would have to write; when that is gone, rank 0 waits for one of rank 2, and gets it.
pub(crate) fn listener() -> Result<()> {
    let world = World::init()?;
    let mine = world.starter::<u64>(world.rank())?;
    say("listens");
    let never = |wait: Wait| world.wait_until(mine, Is::Equal(99), wait).map(drop);
    report("named", &never(Wait::FOREVER.from(1)));
    report("any", &never(Wait::FOREVER));
    report("late", &never(Wait::at_most(Duration::from_millis(5)).from(0)));
    if world.rank() == 2 {
        world.put(world.starter::<u64>(0)?, 7)?;
        super::sleep_forever();
    }
    report("other", &world.wait_until(mine, Is::Equal(7), Wait::FOREVER.from(2)).map(drop));
    super::wait_for_word();
    world.abort("enough");
}

/// Everybody puts a word to rank 0, which opens no connection for that but has to take all of them in.
pub(crate) fn gather() -> Result<()> {
    let world = World::init()?;
    let words = world.starter::<u64>(0)?;
    world.put(words.add(world.rank() as usize), world.rank() as u64 + 1)?;
    world.sync()?;
    if world.rank() == 0 {
        let mut found = vec![0u64; world.ranks() as usize];
        world.get_slice(words, &mut found)?;
        let right = found.iter().zip(1..).filter(|(found, rank)| *found == rank).count();
        say(&format!("gathered {right}"));
    }
    world.finalize()
}

/// Rank 0 registers memory while there is no room for a thread that would serve it, and once more when there is; then rank 1
/// adds to a word of it, and nobody but that thread is there to do it.
pub(crate) fn threadless() -> Result<()> {
    const PRIVATE: usize = 1;
    const DONE: usize = 2;
    let world = World::init()?;
    let words = world.starter::<u64>(0)?;
    let mut memory = None;
    if world.rank() == 0 {
        // Free memory for what is small.
        drop(vec![1u8; 100 << 10]);
        let vector = vec![0u64; 8];
        let before = limit_addresses(used_addresses());
        let refused = world.register(vector);
        limit_addresses(before);
        say(&format!("refused {}", refused.err().map_or("nothing".into(), |error| kind(&error))));
        let registered = world.register(vec![0u64; 8])?;
        world.put(words.add(PRIVATE), registered.address().bits())?;
        memory = Some(registered);
    }
    world.sync()?;
    if world.rank() == 1 {
        let at = GlobalAddress::from_bits(world.get(words.add(PRIVATE))?);
        let old = world.starter::<u64>(1)?.add(PRIVATE).address();
        let added = world.atomic(old, at, AtomicOp::Add(5u64), Order::None)?;
        world.wait(added, Duration::from_secs(60))?;
        world.put(words.add(DONE), 1)?;
    }
    while world.rank() == 0 && world.get(words.add(DONE))? == 0 {
        // A look at its own memory: it serves nobody.
        std::thread::yield_now();
    }
    if let Some(memory) = memory {
        say(&format!("served {}", memory.take()?[0]));
    }
    world.finalize()
}

/// Bytes of addresses that this process uses.
fn used_addresses() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()).expect("a number of pages") * 4096
}

/// Limits the addresses that this process may use. Gives the limit of before.
fn limit_addresses(bytes: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is valid for the writes and reads of both calls.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &mut limit), 0);
        let before = std::mem::replace(&mut limit.rlim_cur, bytes);
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &limit), 0);
        before
    }
}
