//! What all ranks make together: each gets a handle to the same, and who differs gets an error.

use kumiki::data::{
    Chunks, Counter, Deque, List, Map, Multiset, On, Set, Spread, TypedMap, Vector, Workspace,
};
use kumiki::{Error, Result, World};
use kumiki_sim::{Cluster, Network};

const RANKS: u32 = 4;

/// Runs a program on all ranks of a small cluster, each on a node of its own.
fn everywhere(program: impl Fn(&World) -> Result<()> + Send + Sync) {
    let outcome = Cluster::new(RANKS, Network::torus(&[2, 2])).run(|attachment| {
        let world = World::attach(attachment)?;
        program(&world)?;
        world.finalize()
    });
    let ends = outcome.expect("it runs").values().expect("nobody panicked");
    assert_eq!(ends, vec![Ok(()); RANKS as usize]);
}

#[test]
fn every_structure_is_made_for_all_ranks_and_leaves_starter_memory_alone() {
    everywhere(|world| {
        let me = world.rank();
        let counter = Counter::shared(world, 1)?;
        let mut vector = Vector::<u32>::shared(world, On::rank(3))?;
        let mut deque = Deque::<u32>::shared(world, On::rank(2).elements(RANKS as usize))?;
        let mut list = List::shared(world, 1)?;
        let map = Map::shared(world, Spread::everywhere().slots(8))?;
        let set = Set::shared(world, Spread::over(&[1, 2]).slots(8))?;
        let bag = Multiset::shared(world, Spread::everywhere().slots(8))?;
        let typed = TypedMap::<u32, u32>::shared(world, Spread::everywhere().slots(8))?;
        let space = Workspace::shared_with(world, 64, Chunks::of(8))?;
        assert!(counter.next()? < u64::from(RANKS));
        map.insert(&[me as u8], b"here")?;
        set.insert(&[me as u8])?;
        bag.insert(b"all")?;
        typed.insert(me, me * me)?;
        space.write(me as usize * 8, &[me as u8; 8])?;
        for rank in 0..RANKS {
            if rank == me {
                vector.push(me)?;
                deque.push_front(me)?;
                list.push_value(&me, me)?;
            }
            world.sync()?;
        }
        assert_eq!(
            (counter.value()?, vector.to_vec()?, deque.to_vec()?),
            (4, vec![0, 1, 2, 3], vec![3, 2, 1, 0])
        );
        assert_eq!((list.len()?, map.len()?, set.len()?, bag.count(b"all")?), (4, 4, 4, 4));
        assert_eq!(typed.get(3)?, Some(9));
        let mut bytes = [0; 32];
        space.read(0, &mut bytes)?;
        assert!(bytes.iter().enumerate().all(|(at, &byte)| byte as usize == at / 8));
        world.sync()?;
        space.destroy()?;
        if me == 0 {
            counter.destroy()?;
            vector.destroy()?;
            deque.destroy()?;
            list.destroy()?;
            map.destroy()?;
            set.destroy()?;
            bag.destroy()?;
            typed.into_bytes().destroy()?;
        }
        world.sync()?;
        assert_eq!(world.heap_use(me)?.blocks, 0, "nothing is left");
        let starter = world.get_vec(world.starter::<u8>(me)?, world.starter_bytes())?;
        assert!(starter.iter().all(|&byte| byte == 0), "starter memory is the program's");
        Ok(())
    });
}

#[test]
fn ranks_that_came_with_something_else_got_garbage() {
    everywhere(|world| {
        let (me, odd) = (world.rank(), world.rank() == 2);
        let differ: [Result<()>; 4] = [
            Map::shared(world, Spread::everywhere().slots(if odd { 9 } else { 8 })).map(drop),
            if odd { List::shared(world, 0).map(drop) } else { Counter::shared(world, 0).map(drop) },
            if odd { world.shared_array::<f64>(4).map(drop) } else { world.shared_array::<u64>(4).map(drop) },
            Workspace::shared(world, 100 + odd as usize).map(drop),
        ];
        for (call, result) in differ.into_iter().enumerate() {
            let Err(Error::Misuse(message)) = result else { panic!("call {call} on rank {me}: {result:?}") };
            assert!(message.contains(if odd { "this rank came" } else { "1 ranks came" }), "{message}");
        }
        // They agree again, and nothing of the others is left.
        let array = world.shared_array::<u32>(2)?;
        world.put(array.at((me + 1) % RANKS, 1), me)?;
        world.sync()?;
        assert_eq!(array.get(1)?, (me + RANKS - 1) % RANKS);
        assert_eq!(world.heap_use(0)?.blocks, 0);
        world.sync()
    });
}

#[test]
fn an_error_of_rank_0_is_everybodys() {
    everywhere(|world| {
        let refused = Counter::shared(world, RANKS + 3).expect_err("there is no such rank");
        assert!(matches!(refused, Error::Misuse(_)), "{refused}");
        let refused =
            Vector::<u64>::shared(world, On::rank(0).elements(1 << 42)).expect_err("so much is not there");
        assert!(matches!(refused, Error::OutOfMemory { .. }), "{refused}");
        let refused = world.shared_array::<u64>(1 << 42).expect_err("so much is not there");
        assert!(matches!(refused, Error::OutOfMemory { .. }), "{refused}");
        Counter::shared(world, 1)?.next().map(drop)
    });
}

/// Ranks that have registered other things before have their blocks elsewhere.
#[test]
fn an_array_is_found_where_ranks_have_it_apart() {
    everywhere(|world| {
        let me = world.rank();
        let _others: Vec<_> = (0..me).map(|_| world.alloc::<u64>(10)).collect::<Result<_>>()?;
        let array = world.shared_array::<[u32; 2]>(8)?;
        for rank in 0..RANKS {
            world.put(array.at(rank, me as usize), [me, rank])?;
        }
        world.sync()?;
        let found: Vec<[u32; 2]> = (0..RANKS).map(|rank| [rank, me]).collect();
        assert_eq!(array.to_vec()?[..RANKS as usize], found);
        for wrong in [array.at(RANKS, 0), array.at(u32::MAX, 0), array.at(me, 8)] {
            assert!(matches!(world.get(wrong), Err(Error::Bounds { .. })), "{wrong:?}");
        }
        array.free(world)
    });
}

/// Without a table, however many ranks there are.
#[test]
fn an_array_at_the_same_place_everywhere_costs_no_table() {
    everywhere(|world| {
        let before = world.ledger().of(kumiki::Purpose::Directory);
        let (one, two) = (world.shared_array::<u64>(5)?, world.shared_array::<u8>(0)?);
        assert_eq!(world.ledger().of(kumiki::Purpose::Directory), before);
        assert!(two.is_empty() && one.len() == 5);
        let wrong = [one.at(RANKS, 0), one.at(0, 5), one.ptr(u32::MAX)];
        assert!(wrong.iter().all(|&wrong| matches!(world.get(wrong), Err(Error::Bounds { .. }))));
        world.sync()
    });
}

#[test]
fn a_rank_without_a_byte_left_counted_as_one_that_agrees() {
    let outcome = Cluster::new(RANKS, Network::torus(&[2, 2])).budget_bytes(256 << 10).run(|attachment| {
        let world = World::attach(attachment)?;
        let mut all = Vec::new();
        if world.rank() == 2 {
            while let Ok(block) = world.alloc::<u8>(64) {
                all.push(block);
            }
        }
        let array = world.shared_array::<u64>(4).map(drop);
        let space = Workspace::shared(&world, 64).map(drop);
        drop(all);
        // All are at the same barrier still.
        let again = world.shared_array::<u64>(4).map(|array| array.len());
        let met = world.sync();
        Ok::<_, Error>((array, space, again, met))
    });
    for end in outcome.expect("it runs").values().expect("nobody panicked") {
        let (array, space, again, met) = end.expect("all attach");
        assert!(array.is_err() && space.is_err(), "{array:?}, {space:?}");
        assert_eq!((again, met), (Ok(4), Ok(())));
    }
}
