//! A rank crashes at every one of the messages that it sends while it changes a structure. On the ranks that are left the structure is whole and
//! can be used; what lay on the one that is lost gives errors that name it. Nobody hangs: a run in which everybody waits would be an error.

use kumiki::data::{Deque, List, Map, On, RawTable, Spread, Vector};
use kumiki::{Error, GlobalAddress, GlobalPtr, Result, World};
use kumiki_sim::{Cluster, Crash, End, Faults, Network, Time};

const VICTIM: u32 = 1;
const RANKS: u32 = 3;

/// A structure under test: how it is made on a rank (as words that others find it by), changed, and looked at.
struct Trial {
    make: fn(&World, u32) -> Result<[u64; 3]>,
    change: fn(&World, [u64; 3], u32) -> Result<()>,
    check: fn(&World, [u64; 3], u32) -> Result<()>,
}

/// Words of the starter memory of rank 0: where the structure is, and how far everybody is.
const MADE: u64 = 3;
const CHANGED: u64 = 4;
const LOOKED: u64 = 5;

fn word(world: &World, index: u64) -> Result<GlobalPtr<u64>> {
    Ok(world.starter::<u64>(0)?.add(index as usize))
}

/// Waits until a word of rank 0 is set, or somebody is lost.
fn await_word(world: &World, index: u64) -> Result<()> {
    while world.get(word(world, index)?)? == 0 {
        kumiki_sim::compute(Time::from_us(100));
    }
    Ok(())
}

fn found(world: &World) -> Result<[u64; 3]> {
    let mut words = [0; 3];
    world.get_slice(word(world, 0)?, &mut words)?;
    Ok(words)
}

/// Rank 0 makes the structure on its owner, the victim changes it, and when that is over or the victim lost, rank 0 looks at it, then rank 2.
fn part(world: &World, trial: &Trial, owner: u32) -> Result<()> {
    match world.rank() {
        0 => {
            let words = (trial.make)(world, owner)?;
            world.put_slice(word(world, 0)?, &words)?;
            world.put(word(world, MADE)?, 1)?;
            // The victim answers as long as it lives.
            while world.get(word(world, CHANGED)?)? == 0 && world.get(world.starter::<u64>(VICTIM)?).is_ok() {
                kumiki_sim::compute(Time::from_us(100));
            }
            let checked = (trial.check)(world, words, owner);
            world.put(word(world, CHANGED)?, 2)?;
            await_word(world, LOOKED)?;
            checked
        }
        VICTIM => {
            kumiki_sim::compute(Time::from_us(300));
            await_word(world, MADE)?;
            (trial.change)(world, found(world)?, owner)?;
            world.put(word(world, CHANGED)?, 1)
        }
        _ => {
            while world.get(word(world, CHANGED)?)? < 2 {
                kumiki_sim::compute(Time::from_us(300));
            }
            let checked = (trial.check)(world, found(world)?, owner);
            world.put(word(world, LOOKED)?, 1)?;
            checked
        }
    }
}

/// Crashes the victim at each of its messages, until it comes to the end of its part.
fn sweep(trial: &Trial) {
    for owner in [0, VICTIM] {
        let mut crashes = 0;
        for operation in 1.. {
            let faults = Faults { crashes: vec![Crash { rank: VICTIM, operation }], ..Faults::default() };
            let cluster = Cluster::new(RANKS, Network::torus(&[RANKS])).faults(faults);
            let outcome = cluster.run(|attachment| {
                let world = match World::attach(attachment) {
                    // The first messages are those by which worlds begin.
                    Err(Error::PeerLost { rank: VICTIM, .. }) => return Ok(false),
                    attached => attached?,
                };
                let done = part(&world, trial, owner);
                // It may know of the loss, or hear of it now.
                let _ = world.finalize();
                done.map(|()| true)
            });
            let outcome = outcome.unwrap_or_else(|error| panic!("message {operation}: {error}"));
            let crashed = outcome.ends[VICTIM as usize] == End::Crashed;
            if crashed && outcome.ends.contains(&End::Returned(Ok(false))) {
                continue;
            }
            for (rank, end) in outcome.ends.iter().enumerate() {
                match end {
                    End::Crashed => assert_eq!(rank as u32, VICTIM, "message {operation}"),
                    End::Returned(Ok(_)) => {}
                    End::Returned(Err(Error::PeerLost { rank: lost, .. })) if crashed && *lost == VICTIM => {
                        // Only what was on the victim may be lost with it, or what could not even be made.
                        assert!(
                            owner == VICTIM || rank == 2,
                            "rank {rank}, message {operation}: lost too much"
                        );
                    }
                    other => panic!("rank {rank}, owner {owner}, message {operation}: {other:?}"),
                }
            }
            if !crashed {
                break;
            }
            crashes += 1;
        }
        assert!(crashes > 4, "owner {owner}: only {crashes} messages to crash at");
    }
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

#[test]
fn a_map_outlives_whoever_changes_it() {
    // The parts of the map lie on all ranks that live on, or on all.
    fn ranks(owner: u32) -> &'static [u32] {
        if owner == VICTIM {
            &[0, 1, 2]
        } else {
            &[0, 2]
        }
    }
    sweep(&Trial {
        make: |world, owner| {
            Ok(Map::create(world, Spread::over(ranks(owner)).slots(16).directory(owner))?.raw().words())
        },
        change: |world, words, _| {
            let map = Map::from_raw(world, RawTable::from_words(words))?;
            for number in 0..6 {
                map.insert(&key(number), &key(7 * number))?;
            }
            map.remove(&key(2))?;
            map.put(&key(3), &key(1000))
        },
        check: |world, words, _| {
            let map = Map::from_raw(world, RawTable::from_words(words))?;
            let mut count = 0;
            for number in 0..6 {
                if let Some(value) = map.get(&key(number))? {
                    let right = value == key(7 * number) || (number == 3 && value == key(1000));
                    assert!(right, "key {number}: {value:?}");
                    count += 1;
                }
            }
            let own = map.contains(&key(100))? as u64;
            assert_eq!(map.len()? as u64, count + own, "what is found is what is counted");
            assert_eq!(map.iter()?.count() as u64, count + own);
            map.put(&key(100), &key(u64::from(world.rank())))?;
            assert_eq!(map.get(&key(100))?, Some(key(u64::from(world.rank())).to_vec()));
            Ok(())
        },
    });
}

#[test]
fn a_list_outlives_whoever_changes_it() {
    sweep(&Trial {
        make: |world, owner| Ok([List::create(world, owner)?.address().bits(), 0, 0]),
        change: |world, [address, ..], owner| {
            let mut list = List::from_address(world, GlobalAddress::from_bits(address));
            for number in 0..4u64 {
                // Elements lie on the owner and on another rank in turn.
                list.push_back(&key(number), if number % 2 == 0 { owner } else { 2 })?;
            }
            list.pop_front()?;
            let begin = list.begin()?;
            list.insert(begin, &key(9), 2)?;
            list.erase(begin)?;
            list.sort_by(|one, other| other.cmp(one))
        },
        check: |world, [address, ..], owner| {
            let mut list = List::from_address(world, GlobalAddress::from_bits(address));
            // Whoever dies while it sorts leaves a list that must be cleared.
            let elements = match list.to_vec() {
                Err(Error::Refused(_)) => {
                    list.clear()?;
                    Vec::new()
                }
                elements => elements?,
            };
            let known = [0, 1, 2, 3, 9, 50].map(|number| key(number).to_vec());
            assert!(elements.iter().all(|element| known.contains(element)), "{elements:?}");
            // Whoever dies while it adds or erases one element can leave a count that is wrong by one.
            assert!(list.len()?.abs_diff(elements.len()) <= 1, "{} of {elements:?}", list.len()?);
            list.push_back(&key(50), owner)?;
            let more = list.to_vec()?;
            assert!(
                more.len() >= elements.len() && more.last() == Some(&known[5]),
                "{elements:?}, then {more:?}"
            );
            Ok(())
        },
    });
}

#[test]
fn a_vector_and_a_deque_outlive_whoever_changes_them() {
    sweep(&Trial {
        make: |world, owner| {
            let vector = Vector::<u64>::create(world, On::rank(owner))?;
            let deque = Deque::<u64>::create(world, On::rank(owner).elements(4))?;
            Ok([vector.address().bits(), deque.address().bits(), 0])
        },
        change: |world, [vector, deque, _], _| {
            let mut vector = Vector::<u64>::from_address(world, GlobalAddress::from_bits(vector));
            let mut deque = Deque::<u64>::from_address(world, GlobalAddress::from_bits(deque));
            for number in 0..3 {
                vector.push(number)?;
                deque.push_front(number)?;
            }
            vector.insert(1, &[3; 40])?;
            vector.erase(0..2)?;
            deque.extend(&[3; 40])?;
            deque.pop_front()?;
            vector.pop().map(drop)
        },
        check: |world, [vector, deque, _], _| {
            let mut vector = Vector::<u64>::from_address(world, GlobalAddress::from_bits(vector));
            let mut deque = Deque::<u64>::from_address(world, GlobalAddress::from_bits(deque));
            for values in [vector.to_vec()?, deque.to_vec()?] {
                assert!(values.iter().all(|&value| value <= 3 || value == 50), "{values:?}");
            }
            let lengths = (vector.len()?, deque.len()?);
            vector.push(50)?;
            deque.push(50)?;
            assert_eq!((vector.len()?, deque.len()?), (lengths.0 + 1, lengths.1 + 1));
            Ok(())
        },
    });
}

#[test]
fn a_heap_outlives_whoever_takes_from_it() {
    sweep(&Trial {
        make: |_, _| Ok([0; 3]),
        change: |world, _, owner| {
            let blocks: Vec<GlobalAddress> = [16, 4000, 100, 70_000]
                .into_iter()
                .map(|bytes| world.malloc(bytes, owner))
                .collect::<Result<_>>()?;
            // Not in the order in which they were made.
            [2, 0, 3, 1].into_iter().try_for_each(|index| world.free(blocks[index]))
        },
        check: |world, _, owner| {
            let before = world.heap_use(owner)?;
            for bytes in [16, 4000, 100, 70_000] {
                let block = world.malloc(bytes, owner)?;
                world.put(GlobalPtr::from_address(block), bytes)?;
                assert_eq!(world.get(GlobalPtr::<u64>::from_address(block))?, bytes as u64);
                world.free(block)?;
            }
            assert_eq!(world.heap_use(owner)?.used_bytes, before.used_bytes, "what is freed is free");
            Ok(())
        },
    });
}
