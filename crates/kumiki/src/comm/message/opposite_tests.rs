//! Letters that say how far their sender has read: between simulated ranks, each of its own node.

use super::record::Note;
use crate::{Error, Result, World};
use kumiki_sim::{Cluster, Network};

fn run(program: impl Fn(World) -> Result<()> + Sync) {
    let outcome =
        Cluster::new(2, Network::torus(&[2])).run(|attachment| World::attach(attachment).and_then(&program));
    let values = outcome.expect("it runs").values().expect("nobody panicked");
    values.into_iter().for_each(|value| value.expect("no error"));
}

/// Messages of so many bytes go there and back, some times.
fn exchange(world: &World, times: u64, bytes: impl Fn(u64) -> usize) -> Result<()> {
    let (messages, other) = (world.messages(), 1 - world.rank());
    for number in 0..times {
        let sent = vec![number as u8; bytes(number)];
        if world.rank() == 0 {
            messages.send(other, 1, &sent)?;
        }
        assert_eq!(messages.receive::<u8>(other, 1)?.elements, sent);
        if world.rank() == 1 {
            messages.send(other, 1, &sent)?;
        }
    }
    Ok(())
}

/// How much of what this rank has written into its lane at the other one was not read, as far as it knows; if it has one.
fn unread_bytes(world: &World) -> Option<u64> {
    let other = 1 - world.rank();
    world.comm().with_post(|post| {
        let out = post.outs.get_mut(&other)?;
        post.incoming.opposite(world, other)?.learn(out);
        out.unread_bytes()
    })
}

#[test]
fn whoever_is_answered_knows_that_all_was_read() {
    run(|world| {
        exchange(&world, 50, |_| 900)?;
        for _ in 0..20 {
            exchange(&world, 1, |_| 900)?;
            if world.rank() == 0 {
                // The reader says it by itself only at each half of a lane, which holds more than one of these.
                assert_eq!(unread_bytes(&world), Some(0));
            }
        }
        world.finalize()
    });
}

#[test]
fn what_was_said_of_a_lane_is_not_believed_of_the_next_one() {
    // Lanes that become wide, and are used, in both directions: each begins anew.
    run(|world| {
        for _ in 0..3 {
            exchange(&world, 40, |_| 900)?;
            exchange(&world, 40, |number| 1 + (number as usize * 4901) % 120_000)?;
        }
        world.finalize()
    });
}

#[test]
fn what_a_letter_said_that_was_not_taken_is_said_in_the_mailbox() {
    run(|world| {
        exchange(&world, 50, |_| 900)?;
        if world.rank() == 1 {
            world.comm().with_post(|post| {
                let told = post.incoming.opposite(&world, 0).and_then(|opposite| opposite.told_room());
                assert!(matches!(told, Some(Note::Room { head, .. }) if head > 0), "{told:?}");
                post.fail_out(&world, 0, &Error::Refused("for the test".into()));
                assert_eq!(post.outs.get(&0).and_then(|out| out.first_said()), told);
            });
        }
        world.sync()?;
        // The other direction goes on, however many there are.
        for number in 0..200u64 {
            if world.rank() == 0 {
                world.messages().send(1, 2, &vec![number; 100])?;
            } else {
                assert_eq!(world.messages().receive::<u64>(0, 2)?.elements, [number; 100]);
            }
        }
        world.finalize()
    });
}
