//! Ranks that ask for more than there is.

use super::{kind, say};
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
