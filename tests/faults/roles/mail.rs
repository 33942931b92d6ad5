//! Messages from and to a rank that is killed.

use super::{report, say, sleep_forever};
use kumiki::{Result, World};

/// Rank 1 leaves a message for each of the others, and is killed. Rank 0 waits for another one of it, and for anybody's; rank 2 sends to it
/// more than it takes, and then to rank 0.
pub(crate) fn play() -> Result<()> {
    let world = World::init()?;
    let (me, messages) = (world.rank(), world.messages());
    if me == 1 {
        for to in (0..world.ranks()).filter(|to| *to != 1) {
            messages.send(to, 5, &[55u64])?;
        }
        say("ready");
        sleep_forever();
    }
    messages.probe(1, 5)?;
    say("ready");
    match me {
        0 => {
            let receiving = messages.start_receive::<u64>(1, 8)?;
            report("named", &messages.receive::<u64>(1, 9).map(drop));
            report("asked", &receiving.wait().map(drop));
            report("probe", &messages.probe(1, 9).map(drop));
            report("tried", &messages.try_probe(1, 9).map(drop));
        }
        _ => {
            let flood = || loop {
                messages.send(1, 0, &[1u64; 20])?;
            };
            report("flood", &flood());
            report("long", &messages.send(1, 0, &[1u64; 5000]));
            messages.send(0, 7, &[77u64])?;
        }
    }
    let before = messages.receive::<u64>(1, 5).map(|message| assert_eq!(message.elements, [55]));
    report("before", &before);
    let anybody = || messages.receive::<u64>(None, None).map(|message| assert_eq!(message.elements, [77]));
    if me == 0 && world.ranks() == 3 {
        report("other", &anybody());
    }
    if me == 0 && world.ranks() == 2 {
        report("alone", &anybody());
    }
    if me == 0 {
        super::wait_for_word();
        world.abort("enough");
    }
    sleep_forever();
}
