//! One suite for every way of reaching memory: arena, TCP, both together, private regions, ranks without a launcher.
//!
//! Each test is a job: a topic (one file each) carried out by ranks that reach each other in one of the ways of
//! `way.rs`. The ranks are this very program, started with `--rank`. A rank that finds something wrong panics, which ends
//! the job, and the test fails with everything the job printed. `job.rs` starts jobs and watches them.

mod abort;
mod again;
mod arrays;
mod atomics;
mod batches;
mod bounds;
mod budget;
mod channels;
mod collectives;
mod connections;
mod copy;
mod examples;
mod exhausted;
mod fork;
#[path = "../halo_model.rs"]
mod halo_model;
mod halos;
mod heap;
mod histories;
mod hooks;
mod huge;
mod identity;
mod job;
mod lists;
#[path = "../loopback.rs"]
mod loopback;
mod messages;
mod orders;
mod pending;
mod programs;
mod relay;
mod reset;
#[path = "../running.rs"]
mod running;
mod sequences;
mod shapes;
mod simulated;
mod sparse;
mod stage;
mod strangers;
#[path = "../sweep.rs"]
#[allow(dead_code, reason = "each suite uses a part of it")]
mod sweep;
mod sync;
mod tables;
mod teams;
mod threads;
mod torn;
mod typed;
mod views;
mod way;
mod words;
mod worlds;

use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;
use way::{Way, CLOSE, EVERY, NODES, PRIVATE};

/// A test: what the ranks do, how many there are, and over which ways.
struct Topic {
    name: &'static str,
    ranks: u32,
    ways: &'static [&'static [Way]],
    body: Body,
}

/// What a rank does.
enum Body {
    /// Something in a world that is made for it, and finalized after it.
    World(fn(&stage::Stage)),
    /// Something that makes its own worlds.
    Process(fn(&'static Way)),
}

const fn topic(name: &'static str, ways: &'static [&'static [Way]], body: fn(&stage::Stage)) -> Topic {
    Topic { name, ranks: 4, ways, body: Body::World(body) }
}

const fn process(name: &'static str, ways: &'static [&'static [Way]], body: fn(&'static Way)) -> Topic {
    Topic { name, ranks: 4, ways, body: Body::Process(body) }
}

/// Topics that run once over each of their ways; the others have files that start their own jobs.
const TOPICS: &[Topic] = &[
    topic("identity", &[NODES], identity::identity),
    topic("copy", &[EVERY], copy::copy),
    topic("overlap", &[EVERY], copy::overlap),
    topic("large", &[EVERY], copy::large),
    topic("far_offsets", &[NODES], huge::far_offsets),
    topic("typed", &[EVERY], typed::typed),
    topic("views", &[EVERY], views::views),
    topic("freed_in_view", &[NODES], views::freed_in_view),
    // With three ranks an address can name a fourth one, which does not exist.
    Topic { ranks: 3, ..topic("bounds", &[EVERY], bounds::bounds) },
    topic("unregistered", &[EVERY], bounds::unregistered),
    topic("read_only", &[NODES, PRIVATE], bounds::read_only),
    topic("misaligned", &[EVERY], bounds::misaligned),
    topic("colours", &[NODES], bounds::colours),
    topic("atomics", &[EVERY], atomics::operations),
    topic("one_word", &[EVERY], atomics::one_word),
    topic("spin_lock", &[EVERY], atomics::spin_lock),
    topic("chains", &[EVERY], orders::chains),
    topic("issue_order", &[EVERY], orders::issue_order),
    topic("in_turn", &[EVERY], orders::in_turn),
    topic("issued_and_left_alone", &[NODES], orders::issued_and_left_alone),
    topic("completion", &[EVERY], orders::completion),
    topic("deadlines", &[EVERY], orders::deadlines),
    topic("threads", &[EVERY], threads::threads),
    topic(
        "ordered_operations_of_many_threads_complete",
        &[EVERY],
        threads::ordered_operations_of_many_threads_complete,
    ),
    topic("racing", &[EVERY], torn::racing),
    topic("vanishing", &[EVERY], torn::vanishing),
    topic("disturbed", &[EVERY], torn::disturbed),
    topic("answered", &[EVERY], torn::answered),
    topic("barriers", &[NODES], sync::barriers),
    topic("words", &[EVERY], words::words),
    topic("pending", &[EVERY], pending::pending),
    topic("shapes", &[EVERY], shapes::shapes_of_all_kinds),
    topic("signals", &[EVERY], shapes::signals),
    topic("channels", &[NODES, PRIVATE], channels::round),
    topic("into_memory", &[NODES], channels::into_memory),
    topic("several_channels", &[NODES], channels::several),
    topic("slow_receiver", &[NODES], channels::slow_receiver),
    topic("random_messages", &[NODES], channels::random),
    topic("messages", &[NODES, PRIVATE], messages::round),
    topic("messages_of_all_who_send_first", &[NODES, PRIVATE], messages::sent_first),
    topic("messages_of_scopes", &[NODES, PRIVATE], messages::scoped),
    topic("message_programs", &[NODES], messages::random),
    topic("messages_and_a_slow_receiver", &[NODES], messages::slow_receiver),
    topic("messages_unexpected", &[NODES], messages::unexpected),
    topic("messages_left_alone", &[NODES], messages::left_alone),
    topic("messages_and_collectives", &[NODES], messages::beside_collectives),
    topic("messages_of_ranks_that_went", &[NODES], messages::went),
    topic("messages_of_threads", &[NODES], messages::threads),
    topic("streams", &[NODES, PRIVATE], batches::streams),
    topic("lists_of_words", &[NODES], batches::lists),
    topic("wrong_words", &[NODES], batches::wrong_words),
    topic("sparse", &[NODES], sparse::sparse),
    topic("much_through_little", &[NODES], sparse::much_through_little),
    topic("left_exchange", &[NODES], sparse::left_exchange),
    topic("relay", &[NODES], relay::relay),
    topic("long_relay", &[NODES], relay::long_relay),
    topic("slow_relay", &[NODES], relay::slow_relay),
    topic("broken_relay", &[NODES], relay::broken_relay),
    topic("late_barrier", &[NODES], sync::late),
    topic("teams", &[NODES], teams::teams),
    topic("teams_of_threads", &[NODES], teams::teams_of_threads),
    topic("team_members_late_and_left", &[NODES], teams::late_and_left),
    topic("collectives", &[NODES], collectives::collectives),
    topic("long_collectives", &[NODES], collectives::long_collectives),
    topic("broken_collectives", &[NODES], collectives::broken_collectives),
    Topic { ranks: 16, ..topic("many_collectives", &[CLOSE], collectives::many_collectives) },
    Topic { ranks: 20, ..topic("crowded_collectives", &[PRIVATE], collectives::crowded_collectives) },
    Topic { ranks: 5, ..topic("collectives_in_rooms", &[CLOSE], collectives::collectives_in_rooms) },
    topic("mixed_collectives", &[CLOSE], collectives::mixed_collectives),
    topic("left_blocks", &[NODES], collectives::left_blocks),
    topic("collectives_of_threads", &[NODES], collectives::collectives_of_threads),
    topic("array_copies", &[NODES], arrays::array_copies),
    topic("array_rounds", &[NODES], arrays::array_rounds),
    topic("array_late", &[NODES], arrays::array_late),
    topic("array_uneven", &[NODES], arrays::array_uneven),
    topic("array_shadows", &[NODES], arrays::array_shadows),
    topic("array_sharing", &[NODES], arrays::array_sharing),
    topic("halos", &[NODES], halos::halos),
    topic("halos_in_step", &[NODES], halos::halos_in_step),
    topic("left_halos", &[NODES], halos::left_halos),
    topic("unfit_halos", &[NODES], halos::unfit_halos),
    topic("halos_and_panics", &[NODES], halos::halos_and_panics),
    topic("heap_memory_goes_back", &[NODES], budget::heap_memory_goes_back),
    topic("fork", &[EVERY], fork::fork),
    topic("malloc", &[NODES], heap::malloc),
    topic("vector", &[NODES], sequences::vector),
    topic("deque", &[NODES], sequences::deque),
    topic("map_model", &[NODES], tables::map_model),
    topic("set_model", &[NODES], tables::set_model),
    topic("linearizable", &[NODES], histories::linearizable),
    topic("linearizable_malloc", &[NODES], histories::linearizable_malloc),
    topic("whole_tables", &[NODES], tables::whole_tables),
    topic("list", &[NODES], lists::list),
    topic("workspace", &[NODES], lists::workspace),
    topic("counter", &[NODES], lists::counter),
    topic("programs", &[NODES, PRIVATE], programs::programs),
    process("reset", &[NODES, PRIVATE], reset::reset),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|word| word == "--rank") {
        return stage::rank(&arguments[2], &arguments[3]);
    }
    let mut trials = Vec::new();
    for topic in TOPICS {
        for way in topic.ways.iter().copied().flatten() {
            trials.push(Trial::test(format!("{}::{}", way.name, topic.name), move || {
                job::Job::new(way, topic.name, topic.ranks).run().success()
            }));
        }
    }
    trials.extend(huge::trials());
    trials.extend(collectives::trials());
    trials.extend(again::trials());
    trials.extend(arrays::trials());
    trials.extend(halos::trials());
    trials.extend(budget::trials());
    trials.extend(abort::trials());
    trials.extend(reset::trials());
    trials.extend(hooks::trials());
    trials.extend(connections::trials());
    trials.extend(sequences::trials());
    trials.extend(lists::trials());
    trials.extend(examples::trials());
    trials.extend(exhausted::trials());
    trials.extend(strangers::trials());
    trials.extend(simulated::trials());
    trials.extend(sparse::trials());
    trials.extend(tables::trials());
    trials.extend(histories::trials());
    trials.extend(torn::trials());
    trials.extend(worlds::trials());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// What a rank does for a topic that is not in the table.
fn other_body(name: &str) -> Option<Body> {
    Some(match name {
        "huge_copy" => Body::World(huge::huge_copy),
        "again" => Body::Process(again::again),
        "deciding" => Body::World(collectives::deciding),
        "decided" => Body::World(collectives::decided),
        "decided_wrongly" => Body::World(collectives::decided_wrongly),
        "array_budget" => Body::World(arrays::array_budget),
        "halo_budget" => Body::World(halos::halo_budget),
        "budget" => Body::World(budget::budget),
        "small_pool" => Body::World(budget::small_pool),
        "abort" => Body::World(abort::abort),
        "reset_to_one" => Body::Process(reset::reset_to_one),
        "reset_outside" => Body::Process(reset::reset_outside),
        "finalized_early" => Body::Process(strangers::finalized_early),
        "exhausted" => Body::World(exhausted::exhausted),
        "example_kmer" => Body::Process(examples::kmer),
        "list_budget" => Body::World(lists::list_budget),
        "sequence_budget" => Body::World(sequences::sequence_budget),
        "sequence_messages" => Body::World(sequences::sequence_messages),
        "sparse_budget" => Body::World(sparse::sparse_budget),
        "table_budget" => Body::World(tables::table_budget),
        "all_to_all" => Body::World(connections::all_to_all),
        "crowds" => Body::World(connections::crowds),
        "circles" => Body::World(connections::circles),
        "torn" => Body::World(torn::torn),
        "two_worlds" => Body::Process(worlds::two_worlds),
        "lost_in_one" => Body::Process(worlds::lost_in_one),
        "lost" => Body::Process(worlds::lost),
        _ => return None,
    })
}
