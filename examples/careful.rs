//! What goes wrong is a value: each kind of error, how a program meets it, and that the world goes on.
//!
//! `kumiki run -n 4 target/release/examples/careful`

use kumiki::prelude::*;
use std::time::Duration;

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let array = world.shared_array::<u64>(4)?;
    let say = |what: &str, kind: &str| {
        if world.rank() == 0 {
            println!("{what}: {kind}");
        }
    };

    // An element, a rank, a pointer that is not there: nothing was touched.
    say("element 4 of 4", kind(world.get(array.at(0, 4))));
    say("a rank that is not there", kind(world.put(array.at(world.ranks(), 0), 1)));
    say("the null pointer", kind(world.get(GlobalPtr::<u64>::NULL)));

    // A pointer outlives its region, and says so.
    let region = world.alloc::<u64>(1)?;
    let stale = region.ptr();
    drop(region);
    say("memory that was freed", kind(world.get(stale)));

    // More than there is: nothing was taken.
    say("too much memory", kind(world.alloc::<u64>(1 << 42)));

    // A word that nobody writes: waiting ends when it was to end.
    let wait = Wait::at_most(Duration::from_millis(20));
    say(
        "a word that does not come",
        kind(world.wait_until(array.at(world.rank(), 3), Is::NotEqual(0), wait)),
    );

    // Ranks that do not agree: every one of them is told.
    let count = 8 + world.rank() as usize;
    say("arrays of different length", kind(world.shared_array::<u64>(count)));

    // The world goes on.
    world.fetch_add(array.at(0, 0), 1)?;
    world.sync()?;
    if world.rank() == 0 {
        println!("{} ranks are still here", array.get(0)?);
    }
    world.finalize()
}

/// What a program does about an error depends on its kind.
fn kind<T>(result: kumiki::Result<T>) -> &'static str {
    match result {
        Ok(_) => "it worked",
        Err(Error::Bounds { .. }) => "out of bounds; the address is wrong, or its memory is gone",
        Err(Error::OutOfMemory { .. }) => "out of memory; free something, or ask for less",
        Err(Error::PeerLost { .. }) => "a rank is lost; do without it, or end the job",
        Err(Error::Timeout { .. }) => "a deadline has passed; wait again, or give up",
        Err(Error::Misuse(_)) => "misuse; the program is wrong",
        Err(_) => "something else",
    }
}
