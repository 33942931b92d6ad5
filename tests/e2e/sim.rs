//! `kumiki sim`: what it refuses, and how.

use std::path::PathBuf;
use std::process::{Command, Output};

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kumiki"))
        .arg("sim")
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A file that is gone when the test is over.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> File {
        let path = std::env::temp_dir().join(format!("kumiki-sim-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        File(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn bad_input_is_refused_with_its_place_and_what_would_be_right() {
    let mgen = File::new("wrong.mgen", "let right = (rank + 1) % ranks\nsned 8 to right\n");
    let goal = File::new("wrong.goal", "num_ranks 2\nrank 0 {\nl1: send 8b to 9\n}\n");
    let toml = File::new("wrong.toml", "topology = \"torus:4x4\"\n[parameters]\nlink_latenzy = \"1us\"\n");
    let trace = File::new("wrong.json", "[\n{\"ph\":\"i\",\"pid\":0,\"name\":\"nothing\"}\n]\n");
    let empty = File::new("empty.json", "[\n]\n");
    for (arguments, parts) in [
        (
            vec!["run", mgen.name(), "--net", "torus:4x4"],
            vec![":2:1:", "sned 8 to right", "^^^^", "maybe you meant `send`"],
        ),
        (vec!["run", goal.name(), "--net", "torus:4x4"], vec![":3:16:", "no rank 9"]),
        (vec!["run", "ring", "--net", toml.name()], vec![":3:1:", "maybe you meant `link_latency`"]),
        (vec!["run", trace.name(), "--net", "torus:4x4"], vec![":2:", "`nothing` is no event"]),
        (vec!["run", empty.name(), "--net", "torus:4x4"], vec!["--virtual-nodes"]),
        (vec!["run", "rign", "--net", "torus:4x4"], vec!["maybe you meant ring"]),
        (vec!["run", "ring", "--net", "tours:4x4"], vec!["unknown topology", "torus:8x8x8"]),
        (vec!["run", "ring", "--net", "infinband"], vec!["maybe you meant `infiniband`"]),
        (vec!["run", "ring", "--net", "torus:4x4", "--ranks", "99"], vec!["room for 16 ranks"]),
        (vec!["run", "ring", "--net", "torus:4x4", "--set", "color=red"], vec!["unknown parameter 'color'"]),
        (vec!["run", "ring", "--net", "torus:4x4", "--param", "k"], vec!["NAME=VALUE"]),
        (vec!["run", "ring", "--net", "torus:4x4", "--pacing", "soon"], vec!["off, overlap, hops or a time"]),
        (vec!["run", "xor-pairwise", "--net", "torus:3x3"], vec!["power of two"]),
        (vec!["compare", "ring", "--net", "torus:4x4", "--vary", "k"], vec!["NAME=VALUE"]),
        (vec!["fmt", mgen.name()], vec![":2:1:"]),
        (vec!["fmt", "no-such.mgen"], vec!["cannot read no-such.mgen"]),
    ] {
        let output = sim(&arguments);
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{arguments:?} was accepted");
        for part in parts {
            assert!(said.contains(part), "{arguments:?} said:\n{said}");
        }
    }
}

#[test]
fn the_formatter_rewrites_and_checks() {
    let file = File::new("form.mgen", "if rank==0{send 8 to 1;}\n");
    let check = sim(&["fmt", "--check", file.name()]);
    assert_eq!(check.status.code(), Some(1));
    assert!(text(&check.stderr).contains("is not formatted"));
    assert!(sim(&["fmt", file.name()]).status.success());
    assert_eq!(std::fs::read_to_string(&file.0).unwrap(), "if rank == 0 {\n    send 8 to 1\n}\n");
    assert!(sim(&["fmt", "--check", file.name()]).status.success());
}
