//! Joined programs on simulated ranks.

use super::*;
use crate::comm::{Max, Sum};
use kumiki_sim::{Cluster, Network};

fn on_blocks(blocks: &[u32], program: impl Fn(&Join) -> Result<()> + Sync) {
    let ranks: u32 = blocks.iter().sum();
    let outcome = Cluster::new(ranks, Network::torus(&[ranks])).run(|attachment| {
        let join = Join::attach(attachment, blocks)?;
        program(&join)?;
        join.leave()
    });
    assert_eq!(outcome.expect("it runs").values().expect("nobody panicked"), vec![Ok(()); ranks as usize]);
}

#[test]
fn everybody_knows_who_is_who() {
    on_blocks(&[2, 1, 4], |join| {
        let me = join.world().rank();
        assert_eq!(join.world_rank(join.block(), join.rank()), Some(me));
        let places: Vec<_> = (0..8).map(|rank| join.place_of(rank)).collect();
        let known = [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2), (2, 3)].map(Some);
        assert_eq!((&places[..7], places[7]), (&known[..], None));
        assert_eq!((join.world_rank(2, 4), join.world_rank(3, 0)), (None, None));
        let heads = join.heads()?;
        assert_eq!((heads.size(), heads.rank()), (3, (join.rank() == 0).then(|| join.block())));
        let lost = Error::PeerLost { rank: 5, fate: crate::Fate::NotDone, why: "it was killed".into() };
        assert_eq!(join.explain(&lost), "rank 2 of block 2 is lost: it was killed");
        Ok(())
    });
}

#[test]
fn messages_of_two_groups_never_meet_and_those_of_one_come_in_their_order() {
    on_blocks(&[2, 2], |join| {
        let members: Vec<Rank> = vec![3, 0, 2];
        let (one, two) = (join.group(1, members.clone())?, join.group(2, members)?);
        let Some(me) = one.rank() else {
            assert!(matches!(one.send(0, 1, &[1u8]), Err(Error::Misuse(_))));
            return Ok(());
        };
        let (next, last) = ((me + 1) % 3, (me + 2) % 3);
        let mut sendings = Vec::new();
        for (group, mark) in [(&two, 20u64), (&one, 10)] {
            for turn in 0..5 {
                sendings.push(group.start_send(next, 7, vec![mark + turn; 1 + 300 * turn as usize])?);
            }
        }
        for (group, mark) in [(&one, 10), (&two, 20)] {
            for turn in 0..5 {
                assert_eq!(group.receive::<u64>(last, 7)?, vec![mark + turn; 1 + 300 * turn as usize]);
            }
        }
        sendings.into_iter().try_for_each(|sending| sending.wait())
    });
}

#[test]
fn messages_of_a_scope_go_to_members() {
    on_blocks(&[2, 2], |join| {
        let group = join.group(1, vec![3, 0, 2])?;
        let (mine, mut came) = (vec![join.world().rank(); 50_000], vec![0; 50_000]);
        let Some(me) = group.rank() else {
            let refused = group.scope(|scope| scope.send(0, 1, &mine));
            assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
            return Ok(());
        };
        let (next, last) = ((me + 1) % 3, (me + 2) % 3);
        group.scope(|scope| {
            scope.send(next, 1, &mine)?;
            scope.receive_into(&mut came, last, 1)
        })?;
        assert_eq!(came, vec![[3, 0, 2][last as usize]; 50_000]);
        Ok(())
    });
}

#[test]
fn members_of_several_blocks_have_collectives_of_their_own() {
    on_blocks(&[3, 1, 4], |join| {
        let all = join.universe()?;
        let mut largest = [join.world().rank()];
        all.collectives()?.allreduce(&mut largest, Max)?;
        assert_eq!(largest, [7]);
        let mine = join.of_block(join.block())?;
        let mut count = [1u64];
        mine.collectives()?.allreduce(&mut count, Sum)?;
        assert_eq!(count[0], u64::from(join.blocks()[join.block() as usize]));
        let heads = join.heads()?;
        assert_eq!(heads.collectives().is_ok(), join.rank() == 0);
        let few = join.group(5, vec![7, 2, 0])?;
        if few.rank().is_some() {
            let mut word = [if few.rank() == Some(1) { 42u32 } else { 0 }];
            few.collectives()?.broadcast(1, &mut word)?;
            assert_eq!(word, [42]);
        }
        Ok(())
    });
}

#[test]
fn wrong_groups_are_named() {
    on_blocks(&[1, 1], |join| {
        assert!(join.group(i32::MIN, vec![0, 1]).is_err());
        assert!(join.group(1, vec![0, 2]).is_err());
        assert!(join.group(1, vec![0, 0]).is_err());
        assert!(join.of_block(2).is_err());
        let empty = join.group(-1, vec![])?;
        assert_eq!((empty.size(), empty.rank()), (0, None));
        // No number that the program has never seen.
        let other = join.of_block(1 - join.block())?;
        let named = format!("this process is no member of the group of block {}", 1 - join.block());
        assert_eq!(other.collectives().map(drop), Err(crate::Error::Misuse(named)));
        assert_eq!(join.universe()?.name(), "of all processes");
        assert_eq!(
            (join.heads()?.name().as_str(), empty.name().as_str()),
            ("of the first process of each block", "-1")
        );
        Ok(())
    });
}
