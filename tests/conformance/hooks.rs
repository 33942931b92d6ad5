//! The suite under the hooks: counting and tracing change nothing.

use crate::job::Job;
use crate::way;
use libtest_mimic::{Failed, Trial};

const TOPICS: [&str; 6] = ["typed", "atomics", "chains", "completion", "messages", "channels"];
const WAYS: [&str; 2] = ["mixed", "private_off"];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for way in WAYS {
        for topic in TOPICS {
            trials.push(Trial::test(format!("{way}::count::{topic}"), move || counted(way, topic)));
            trials.push(Trial::test(format!("{way}::trace::{topic}"), move || traced(way, topic)));
        }
    }
    trials
}

/// Every rank prints what it sent and received, and all of it was received.
fn counted(way: &str, topic: &str) -> Result<(), Failed> {
    let ended = Job::new(way::named(way), topic, 4).env("KUMIKI_COUNT", "1").run().code(0)?;
    let lines: Vec<&str> = ended.output.lines().filter(|line| line.contains(" over tcp: sent ")).collect();
    ended.expect(lines.len() == 4, "each of 4 ranks prints its counts once")?;
    for line in lines {
        let figures: Vec<u64> = line
            .split(" over tcp: ")
            .nth(1)
            .into_iter()
            .flat_map(|rest| rest.split(|letter: char| !letter.is_ascii_digit()))
            .filter_map(|word| word.parse().ok())
            .collect();
        ended.expect(figures.len() == 5, &format!("five figures in {line:?}"))?;
        ended.expect(figures[0] > 5 && figures[2] > 5, &format!("traffic in {line:?}"))?;
        ended.expect(figures[4] == 0, &format!("no lost peers in {line:?}"))?;
    }
    Ok(())
}

/// The trace is a JSON list of events of every rank.
fn traced(way: &str, topic: &str) -> Result<(), Failed> {
    let name = format!("kumiki-conformance-{}-{way}-{topic}.json", std::process::id());
    let path = std::env::temp_dir().join(name);
    let text = path.to_str().expect("a path in UTF-8");
    let _ = std::fs::remove_file(&path);
    let ended = Job::new(way::named(way), topic, 4).env("KUMIKI_TRACE", text).run().code(0)?;
    let trace = std::fs::read_to_string(&path).unwrap_or_default();
    let _ = std::fs::remove_file(&path);
    let events: Vec<serde_json::Value> = match serde_json::from_str(&trace) {
        Ok(events) => events,
        Err(error) => {
            let start: String = trace.chars().take(200).collect();
            return Err(
                ended.failure(&format!("the trace should be a JSON list: {error}; it begins {start:?}"))
            );
        }
    };
    let named = |event: &serde_json::Value| {
        ["send put", "send get", "send atomic"].iter().any(|name| event["name"] == *name)
    };
    ended.expect(events.iter().any(named), "events are called by what they are")?;
    for rank in 0..4 {
        let of_rank = |event: &&serde_json::Value| event["pid"] == rank && event["ph"] == "i";
        let count = events.iter().filter(of_rank).count();
        ended.expect(count > 10, &format!("{count} events of rank {rank}"))?;
    }
    Ok(())
}
