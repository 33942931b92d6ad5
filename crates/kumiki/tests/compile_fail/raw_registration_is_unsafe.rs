//! Registering raw memory is a promise that only `unsafe` code can make.

fn main() -> kumiki::Result<()> {
    let world = kumiki::World::init()?;
    let mut memory = [0u8; 64];
    let key = kumiki::raw::memory(&world).register_raw(memory.as_mut_ptr(), 64, 1)?;
    kumiki::raw::memory(&world).unregister_raw(key)?;
    world.finalize()
}
