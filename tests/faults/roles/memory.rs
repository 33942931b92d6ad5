//! Ranks that ask for more than there is.

use super::{kind, report, say};
use kumiki::{Result, World};

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
