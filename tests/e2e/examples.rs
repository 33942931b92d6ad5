//! The examples print what is written beside them, on one node and between two. (One more, `kmer`, is in the conformance suite.)

use crate::job::{kumiki, Job};

/// What an example printed, without the tags of the ranks and in an order that does not depend on who was first.
fn lines(output: &str) -> Vec<String> {
    let untagged = output.lines().map(|line| line.split_once("] ").map_or(line, |(_, rest)| rest));
    let mut lines: Vec<String> = untagged.map(|line| line.trim_end().to_owned()).collect();
    lines.sort();
    lines
}

fn folder() -> String {
    format!("{}/../../examples", env!("CARGO_MANIFEST_DIR"))
}

/// Where `cargo build --examples` puts an example.
fn program(name: &str) -> String {
    let program = kumiki().parent().expect("a folder").join("examples").join(name);
    assert!(program.exists(), "{program:?} is not there; cargo build --workspace --examples makes it");
    program.to_str().expect("a path in UTF-8").to_owned()
}

fn check(name: &str) {
    let expected = std::fs::read_to_string(format!("{}/{name}.expected", folder())).unwrap();
    for options in [&["-n", "4"][..], &["-n", "4", "--virtual-nodes", "2"]] {
        let ended = Job::new(options, &[&program(name)]).run();
        ended.expect(0, "");
        assert_eq!(lines(&ended.stdout()), lines(&expected), "{name} {options:?}: {}", ended.stderr());
    }
}

macro_rules! examples {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        /// An example that nobody runs goes wrong unseen.
        #[test]
        fn every_example_is_run() {
            let mut known = vec![$(stringify!($name)),*];
            known.push("kmer");
            let files = std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().file_name());
            let names = files.filter_map(|file| Some(file.to_str()?.strip_suffix(".rs")?.to_owned()));
            let mut found: Vec<String> = names.collect();
            found.sort();
            known.sort();
            assert_eq!(found, known);
        }
    };
}

examples!(hello histogram word_count work_queue halo mhd careful pointers both_ways nbody parareal fmo laplace himeno conjugate_gradient life fft);

#[test]
fn both_ways_is_the_same_program_in_the_simulator() {
    let run = std::process::Command::new(program("both_ways")).args(["--simulate", "64"]).output().unwrap();
    let expected = std::fs::read_to_string(format!("{}/both_ways.simulated.expected", folder())).unwrap();
    assert_eq!(String::from_utf8_lossy(&run.stdout), expected, "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn pictures_are_drawn_where_they_are_asked_for() {
    for name in ["nbody", "parareal", "fmo"] {
        let file = std::env::temp_dir().join(format!("kumiki-{name}-{}.svg", std::process::id()));
        let path = file.to_str().expect("a path in UTF-8");
        Job::new(&["-n", "3"], &[&program(name), "--picture", path]).run().expect(0, "");
        let picture = std::fs::read_to_string(&file);
        let _ = std::fs::remove_file(&file);
        let picture = picture.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{name}: {picture}");
        assert!((0..3).all(|rank| picture.contains(&format!("rank {rank}"))), "{name}");
        let has_strange_number = ["NaN", "inf"].iter().any(|number| picture.contains(number));
        assert!(!has_strange_number, "{name}: {picture}");
    }
}
