//! Sparse exchanges and relays in the simulator, where each rank has a node of its own. Those on one node, and on several, are in the
//! conformance suite.

use kumiki::comm::{RelayOptions, SparseExchange, SparseOptions};
use kumiki::{Error, Members, Purpose, Rank, Result, World};
use kumiki_sim::{Cluster, Crash, End, Faults, Network, Time};

fn cluster(ranks: u32) -> Cluster {
    Cluster::new(ranks, Network::torus(&[ranks]))
}

/// Runs a program on all ranks of a small cluster; each must end well.
fn everywhere(ranks: u32, program: impl Fn(&World) -> Result<()> + Send + Sync) {
    let outcome = cluster(ranks).run(|attachment| {
        let world = World::attach(attachment)?;
        program(&world)?;
        world.finalize()
    });
    let ends = outcome.expect("it runs").values().expect("nobody panicked");
    assert_eq!(ends, vec![Ok(()); ranks as usize]);
}

fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    move |limit| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % limit
    }
}

/// What a rank sends in a step: to whom, and how many elements.
fn sends(rank: Rank, ranks: u32, step: u64) -> Vec<(Rank, u64)> {
    let mut next = numbers(u64::from(rank) << 32 | step);
    (0..next(6))
        .map(|_| (next(ranks.into()) as Rank, if next(5) == 0 { 90 + next(300) } else { next(12) }))
        .collect()
}

/// An element, of a length that is no number of words.
type Element = [u32; 3];

fn element(from: Rank, step: u64, number: u64) -> Element {
    [from, step as u32, number as u32]
}

/// What comes to a rank in a step, from each that sends it something.
fn expected(me: Rank, ranks: u32, step: u64) -> Vec<(Rank, Vec<Element>)> {
    let from = |source: Rank| {
        let mut numbers = 0..;
        let due = sends(source, ranks, step).into_iter().flat_map(|(to, count)| (0..count).map(move |_| to));
        due.filter_map(|to| numbers.next().filter(|_| to == me))
            .map(|number| element(source, step, number))
            .collect()
    };
    (0..ranks)
        .map(|source| (source, from(source)))
        .filter(|(_, elements): &(_, Vec<_>)| !elements.is_empty())
        .collect()
}

/// A step of a random program: in one of several ways.
fn step(exchange: &mut SparseExchange<'_, Element>, me: Rank, ranks: u32, step: u64) -> Result<()> {
    let all = sends(me, ranks, step).into_iter().flat_map(|(to, count)| (0..count).map(move |_| to));
    let all: Vec<(Rank, Element)> =
        (0..).zip(all).map(|(number, to)| (to, element(me, step, number))).collect();
    if step % 3 == 2 {
        let mut came = vec![Vec::new(); ranks as usize];
        exchange.run(all, |source, elements| came[source as usize].extend_from_slice(elements))?;
        let came = (0..).zip(came).filter(|(_, elements)| !elements.is_empty());
        assert_eq!(came.collect::<Vec<_>>(), expected(me, ranks, step), "rank {me}, step {step}");
        return Ok(());
    }
    for same in all.chunk_by(|one, two| one.0 == two.0) {
        let (to, mut elements) = (same[0].0, same.iter().map(|(_, element)| *element));
        match step % 3 {
            0 => exchange.send(to, &elements.collect::<Vec<_>>())?,
            _ => elements.try_for_each(|element| exchange.push(to, element))?,
        }
    }
    let came = exchange.finish()?;
    let came: Vec<_> = came.iter().map(|(source, elements)| (source, elements.to_vec())).collect();
    assert_eq!(came, expected(me, ranks, step), "rank {me}, step {step}");
    Ok(())
}

#[test]
fn random_exchanges_give_what_a_model_says_with_much_room_and_little() {
    for ranks in (1..=7).chain([16]) {
        for room in [3, 64, 5000] {
            everywhere(ranks, |world| {
                let of = || {
                    [Purpose::Comm, Purpose::Team, Purpose::Heap].map(|purpose| world.ledger().of(purpose))
                };
                let before = of();
                let mut exchange = world.sparse_exchange(SparseOptions::default().room(room))?;
                for number in 0..7 {
                    step(&mut exchange, world.rank(), ranks, number)?;
                }
                assert!(room < 5000 || exchange.rounds() < 20, "{exchange:?}");
                assert!(room > 3 || exchange.rounds() > 7, "{exchange:?}");
                exchange.free()?;
                world.sync()?;
                assert_eq!(of(), before);
                Ok(())
            });
        }
    }
}

/// With faults that heal: the network loses, doubles and delays, ranks are slow.
#[test]
fn random_exchanges_and_relays_under_faults_that_heal() {
    for seed in 0..40 {
        let outcome = cluster(4).seed(seed).faults(Faults::harmless(seed, 4)).run(|attachment| {
            let world = World::attach(attachment)?;
            let mut exchange = world.sparse_exchange(SparseOptions::default().room(40))?;
            (0..4).try_for_each(|number| step(&mut exchange, world.rank(), 4, seed << 8 | number))?;
            exchange.free()?;
            carry(&world, (0..4).into(), RelayOptions::new(5, 2), seed)?;
            world.finalize()
        });
        let ends = outcome.expect("it runs").values().expect("nobody panicked");
        assert_eq!(ends, vec![Ok(()); 4], "seed {seed}");
    }
}

/// Many ranks that each send to a few: no memory for a rank that is sent nothing.
#[test]
fn many_ranks_exchange_with_few() {
    everywhere(256, |world| {
        let (me, ranks) = (world.rank(), world.ranks());
        let mut exchange = world.sparse_exchange::<u64>(SparseOptions::default().room(64))?;
        assert!(exchange.area_bytes() < 2048, "{exchange:?}");
        for round in 0..3 {
            for step in [1, 16, 77] {
                exchange.push((me + step) % ranks, u64::from(me) + round)?;
            }
            let came = exchange.finish()?;
            let sources = [1, 16, 77].map(|step| (me + ranks - step) % ranks);
            assert_eq!(came.iter().len(), 3);
            assert!(
                sources.iter().all(|source| came.from(*source) == [u64::from(*source) + round]),
                "{came:?}"
            );
            assert!(came.from(me).is_empty());
        }
        exchange.free()
    });
}

#[test]
fn wrong_options_and_ranks_that_are_not_there_are_misuse() {
    everywhere(3, |world| {
        let none = world.sparse_exchange::<u64>(SparseOptions::default().room(0)).map(drop);
        assert!(matches!(&none, Err(Error::Misuse(why)) if why.contains("room for 0 elements")), "{none:?}");
        let none = usize::from(world.rank() != 1) * 10;
        assert!(world.sparse_exchange::<u64>(SparseOptions::default().room(none)).is_err(), "one is wrong");
        let room = 10 + usize::from(world.rank() == 1);
        assert!(world.sparse_exchange::<u64>(SparseOptions::default().room(room * 100)).is_err());
        let mut exchange = world.sparse_exchange::<u64>(SparseOptions::default())?;
        assert!(matches!(exchange.push(3, 1), Err(Error::Misuse(_))));
        exchange.send(2, &[7])?;
        assert_eq!(exchange.finish()?.len(), if world.rank() == 2 { 3 } else { 0 });
        exchange.free()?;
        for wrong in [RelayOptions::new(0, 2), RelayOptions::new(2, 0), RelayOptions::new(usize::MAX, 9)] {
            assert!(matches!(world.relay::<u64>(wrong), Err(Error::Misuse(_))));
        }
        assert!(world.relay::<u64>(RelayOptions::new(2 + world.rank() as usize, 2)).is_err());
        assert!(world.relay_over::<u64>(Members::from([0, 7]), RelayOptions::new(2, 2)).is_err());
        Ok(())
    });
}

/// Types are compared, too.
#[test]
fn ranks_with_different_elements_all_get_an_error() {
    everywhere(3, |world| {
        let options = SparseOptions::default();
        let made = match world.rank() == 2 {
            true => world.sparse_exchange::<f64>(options).map(drop),
            false => world.sparse_exchange::<u64>(options).map(drop),
        };
        assert!(
            matches!(made, Err(Error::Misuse(_) | Error::Refused(_) | Error::PeerLost { .. })),
            "{made:?}"
        );
        Ok(())
    });
}

/// A rank that drops its exchange in the middle is missed by all, and nothing leaks.
#[test]
fn a_rank_that_leaves_an_exchange_is_an_error_for_all_and_leaks_nothing() {
    everywhere(4, |world| {
        let of = || [Purpose::Comm, Purpose::Team, Purpose::Heap].map(|purpose| world.ledger().of(purpose));
        let before = of();
        let mut exchange = world.sparse_exchange::<u64>(SparseOptions::default().room(8))?;
        exchange.push(0, 1)?;
        exchange.finish()?;
        // Whoever leaves before would break the call of the others.
        world.sync()?;
        let left = match world.rank() == 3 {
            true => {
                drop(exchange);
                None
            }
            false => {
                // It may be full, or gone.
                let _ = exchange.send(3, &[5; 100]);
                assert!(exchange.finish().is_err());
                assert!(exchange.push(1, 1).is_err() && exchange.finish().is_err(), "it stays broken");
                Some(exchange)
            }
        };
        world.sync()?;
        drop(left);
        world.sync()?;
        let other = world.sparse_exchange::<u64>(SparseOptions::default())?;
        other.free()?;
        world.sync()?;
        assert_eq!(of(), before);
        Ok(())
    });
}

/// In the middle of an exchange: what came is more than there is memory for.
#[test]
fn arrivals_without_memory_are_an_error_on_all_and_leak_nothing() {
    let outcome = cluster(4).budget_bytes(1 << 20).run(|attachment| {
        let world = World::attach(attachment)?;
        let of = || [Purpose::Comm, Purpose::Team, Purpose::Heap].map(|purpose| world.ledger().of(purpose));
        let before = of();
        let much = world.sparse_exchange::<u64>(SparseOptions::default().room(1 << 16)).map(drop);
        assert!(matches!(much, Err(Error::OutOfMemory { .. })), "{much:?}");
        world.sync()?;
        let options = SparseOptions::default().room(4096);
        let mut exchange = world.sparse_exchange::<u64>(options)?;
        // What each rank sends is in its memory, all together are not in that of the one they send to.
        let short = exchange.send(0, &[1; 20_000]).and_then(|()| exchange.finish().map(drop));
        assert!(world.rank() > 0 || matches!(short, Err(Error::OutOfMemory { .. })), "{short:?}");
        // Those who were done when it failed are told with their next call.
        assert!(short.is_err() || exchange.finish().is_err());
        drop(exchange);
        world.sync()?;
        // The same bit by bit.
        let mut exchange = world.sparse_exchange::<u64>(options)?;
        let comm = world.ledger().of(Purpose::Comm);
        let mut count = 0;
        let most = std::cell::Cell::new(0);
        exchange.run((0..40_000).map(|number| (0, number)), |_, elements| {
            count += elements.len();
            most.set(most.get().max(world.ledger().of(Purpose::Comm)));
        })?;
        assert_eq!(count, if world.rank() == 0 { 160_000 } else { 0 });
        assert!(most.get() <= comm + 4096, "{comm} bytes have become {}", most.get());
        exchange.free()?;
        world.sync()?;
        assert_eq!(of(), before);
        world.finalize()
    });
    assert_eq!(outcome.expect("it runs").values().expect("nobody panicked"), vec![Ok(()); 4]);
}

/// Whenever a rank crashes, every other one learns it, and nobody waits for ever: a run in which everybody does would be an error.
fn crashes_everywhere(ranks: u32, victim: Rank, stride: usize, program: fn(&World) -> Result<()>) {
    for operation in (1..).step_by(stride) {
        let faults = Faults { crashes: vec![Crash { rank: victim, operation }], ..Faults::default() };
        let outcome = cluster(ranks).faults(faults).run(|attachment| -> Result<()> {
            let world = World::attach(attachment)?;
            let told = program(&world);
            if told.is_err() {
                // Whoever ends now would be missed, too.
                for _ in 0..3 {
                    kumiki_sim::compute(Time::from_seconds(1.0));
                    let _ = world.progress();
                }
                return told;
            }
            world.finalize()
        });
        let outcome = outcome.expect("nobody hangs");
        let mut crashed = false;
        for (rank, end) in outcome.ends.iter().enumerate() {
            match end {
                End::Crashed => crashed = true,
                End::Returned(Ok(())) => {}
                End::Returned(Err(error)) => {
                    let lost = matches!(error, Error::PeerLost { rank, .. } if *rank == victim);
                    assert!(lost, "rank {rank}, crash at {operation}: {error}");
                }
                other => panic!("rank {rank}, crash at {operation}: {other:?}"),
            }
        }
        if !crashed {
            return;
        }
    }
}

#[test]
fn a_rank_that_crashes_at_any_message_of_an_exchange_is_missed_by_all() {
    crashes_everywhere(4, 2, 3, |world| {
        let mut exchange = world.sparse_exchange(SparseOptions::default().room(40))?;
        (0..4).try_for_each(|number| step(&mut exchange, world.rank(), 4, number))?;
        exchange.free()
    });
}

#[test]
fn a_rank_that_crashes_at_any_message_of_a_relay_is_named_to_all() {
    for victim in [0, 1, 3] {
        crashes_everywhere(4, victim, 3, |world| {
            carry(world, (0..4).into(), RelayOptions::new(5, 2), 3)?;
            world.sync()
        });
    }
}

/// Buckets of any length along a line: each rank adds its number. The first waits for the whole to have come at the end, so that nobody
/// leaves before.
fn carry(world: &World, members: Members, options: RelayOptions, seed: u64) -> Result<()> {
    let count = members.len();
    let Some(mut relay) = world.relay_over::<u64>(members, options)? else { return Ok(()) };
    let mut next = numbers(seed);
    let lengths: Vec<usize> = (0..20).map(|_| next(13) as usize).collect();
    if relay.is_first() {
        assert!(matches!(relay.receive(), Err(Error::Misuse(_))));
        for (number, length) in lengths.iter().enumerate() {
            let message: Vec<u64> = (0..*length as u64).map(|index| 1000 * number as u64 + index).collect();
            match count {
                1 => assert!(matches!(relay.send(&[1]), Err(Error::Misuse(_)))),
                _ => relay.send(&message)?,
            }
        }
        return relay.close();
    }
    let position = u64::from(relay.position());
    for (number, length) in lengths.iter().enumerate() {
        let mut place = vec![0; *length];
        if number % 2 == 0 {
            relay.receive_into(&mut place)?;
            if !relay.is_last() {
                let passed: Vec<u64> = place.iter().map(|value| value + 100).collect();
                relay.send(&passed)?;
            }
        } else {
            let mut filled = 0;
            while filled < *length {
                let bucket = relay.receive()?.expect("there is more");
                place[filled..filled + bucket.len()].copy_from_slice(bucket);
                filled += bucket.len();
                bucket.iter_mut().for_each(|value| *value += 100);
                if !relay.is_last() {
                    relay.pass_on()?;
                }
            }
        }
        let right: Vec<u64> =
            (0..*length as u64).map(|index| 1000 * number as u64 + index + 100 * (position - 1)).collect();
        assert_eq!(place, right, "message {number} at {position}");
    }
    assert!(relay.receive()?.is_none() && relay.has_bucket()?, "an end that has come is not waited for");
    relay.close()
}

#[test]
fn buckets_come_in_order_along_any_line_and_all_memory_goes_back() {
    for ranks in 1..=6 {
        for options in [RelayOptions::new(1, 1), RelayOptions::new(5, 2), RelayOptions::new(64, 7)] {
            everywhere(ranks, |world| {
                let of = || [Purpose::Team, Purpose::Heap].map(|purpose| world.ledger().of(purpose));
                let backwards: Members = (0..ranks).rev().collect::<Vec<_>>().into();
                carry(world, backwards.clone(), options, 5)?;
                world.sync()?;
                let before = of();
                for (members, seed) in
                    [((0..ranks).into(), 1), (Members::strided(0, 2, ranks.div_ceil(2)), 2)]
                {
                    carry(world, members, options, seed)?;
                }
                carry(world, backwards, options, 3)?;
                world.sync()?;
                // Whoever does something with channels looks what may go.
                drop(world.sender::<u8>(world.rank())?.start_free()?);
                world.sync()?;
                assert!(of()[1] <= before[1] + 2048, "{before:?} bytes have become {:?}", of());
                Ok(())
            });
        }
    }
}

#[test]
fn a_rank_that_drops_its_relay_is_named_along_the_line() {
    for leaver in 0..4 {
        everywhere(4, |world| {
            let mut relay = world.relay::<u64>(RelayOptions::new(4, 2))?;
            if relay.position() == leaver {
                drop(relay);
                return world.sync();
            }
            let mut go_on = || -> Result<()> {
                loop {
                    if relay.is_first() {
                        relay.send(&[1; 4])?;
                    } else {
                        relay.receive()?;
                        if !relay.is_last() {
                            relay.pass_on()?;
                        }
                    }
                }
            };
            let lost = go_on();
            let named = matches!(&lost, Err(Error::PeerLost { rank, .. }) if *rank == leaver);
            assert!(named, "rank {} of {leaver}: {lost:?}", world.rank());
            assert_eq!(go_on(), lost, "it stays broken");
            world.sync()
        });
    }
}

/// A rank without memory: all get an error, and ends that are made later meet as they should.
#[test]
fn a_relay_without_memory_is_an_error_on_all_and_leaks_nothing() {
    let outcome = cluster(3).budget_bytes(1 << 20).run(|attachment| {
        let world = World::attach(attachment)?;
        carry(&world, (0..3).into(), RelayOptions::new(4, 2), 1)?;
        world.sync()?;
        let of = || [Purpose::Comm, Purpose::Heap].map(|purpose| world.ledger().of(purpose));
        let before = of();
        let hog = (world.rank() == 1).then(|| world.alloc::<u8>(700 << 10));
        world.sync()?;
        let short =
            world.relay::<u64>(RelayOptions::new(1 << 12, 8)).map(drop).expect_err("one has no memory");
        assert_eq!(matches!(short, Error::OutOfMemory { .. }), world.rank() == 1, "{short}");
        drop(hog);
        assert!(of()[0] <= before[0] + 512, "{before:?} bytes have become {:?}", of());
        world.sync()?;
        carry(&world, (0..3).into(), RelayOptions::new(3, 2), 2)?;
        world.finalize()
    });
    assert_eq!(outcome.expect("it runs").values().expect("nobody panicked"), vec![Ok(()); 3]);
}
