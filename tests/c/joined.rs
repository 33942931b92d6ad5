//! Whole programs over WaitIO: a solver that was written for MPI, and the example of a simulation and its analysis.

use crate::stage::{repository, succeed, Language, Stage};
use crate::waitio::{block, converse, Block, Ended, Way};
use crate::{test, Test};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test("joined::a_heat_solver_gives_under_two_mpis_what_it_gives_under_one", heat),
        test("joined::example_simulation_and_analysis", example),
        test("joined::programs_join_by_kumiki_h", by_our_interface),
    ]
}

/// Compiles a program with MPI, and with WaitIO if it uses that. No operations are fused: all compilers round alike.
fn compiled(stage: &Stage, way: Way, source: &str, name: &str, waitio: &[&str]) -> PathBuf {
    let (compiler, tag) = match way {
        Way::Mpich => ("mpicc.mpich", "mpich"),
        Way::OpenMpi | Way::Plain | Way::Island => ("mpicc.openmpi", "openmpi"),
    };
    let program = stage.path("built").join(format!("{name}-{tag}"));
    let lib = stage.path("lib");
    let mut command = Command::new(compiler);
    command.args(["-std=gnu99", "-Wall", "-Wextra", "-O2", "-ffp-contract=off"]);
    command.arg("-I").arg(stage.path("include")).arg("-L").arg(&lib);
    command.arg(format!("-Wl,-rpath,{}", lib.display())).args(waitio).arg(repository().join(source));
    succeed(command.args(["-lm", "-o"]).arg(&program));
    program
}

/// What a solver printed that is no measurement: residuals with all their digits, the number of steps, the highest temperature.
fn found(ended: &[Ended]) -> Vec<String> {
    let said: String = ended.iter().map(|one| one.said.as_str()).collect();
    assert!(ended.iter().all(|one| one.code == Some(0)), "{said}");
    let measured = |line: &&str| line.starts_with("time:") || line.starts_with("memory ");
    assert_eq!(said.lines().filter(measured).count(), 2, "{said}");
    said.lines().filter(|line| !measured(line)).map(str::to_owned).collect()
}

/// Whether two words are the same, or the same number but for the digits that the order of a sum leaves open.
fn nearly(one: &str, two: &str) -> bool {
    match (one.parse::<f64>(), two.parse::<f64>()) {
        (Ok(one), Ok(two)) => (one - two).abs() <= 1e-7 * one.abs().max(two.abs()),
        _ => one == two,
    }
}

/// Four ranks of one MPI, then as many of two: as many steps, the same residuals. Sums of all digits make them equal to the last bit.
fn heat(stage: &Stage) {
    let source = "tests/c/heat3d/heat3d.c";
    let names = repository().join("tests/c/heat3d/waitio_names.h").display().to_string();
    let replaced = ["-include", names.as_str(), "-Wl,--no-as-needed", "-lwaitio_mpi"];
    let alone = compiled(stage, Way::OpenMpi, source, "heat", &[]);
    let joined =
        [Way::OpenMpi, Way::Mpich].map(|way| (way, compiled(stage, way, source, "heat-joined", &replaced)));
    let both = |ranks: [u32; 2], words: &[&str]| {
        let blocks: Vec<Block> = joined
            .iter()
            .zip(ranks)
            .map(|((way, program), ranks)| block(*way, ranks, program, words))
            .collect();
        found(&converse(stage, &blocks, &[]))
    };
    let one =
        |ranks, words: &[&str]| found(&converse(stage, &[block(Way::OpenMpi, ranks, &alone, words)], &[]));

    let words = ["12", "2x2x1", "exact"];
    let exact = one(4, &words);
    assert!(exact.iter().any(|line| line == "4 ranks, 2197 nodes, 36 steps"), "{exact:?}");
    assert_eq!(both([2, 2], &words), exact);
    assert_eq!(both([1, 3], &["12", "1x2x2", "exact"]), exact, "cut in another way");

    let words = ["12", "2x2x1"];
    let (expected, got) = (one(4, &words), both([2, 2], &words));
    let pairs = expected.iter().zip(&got);
    let mut words = pairs.flat_map(|(one, two)| one.split(' ').zip(two.split(' ')));
    assert!(expected.len() == got.len() && words.all(|(one, two)| nearly(one, two)), "{expected:?}\n{got:?}");

    // Where the solution is known in every node.
    let known = both([2, 2], &["12", "1x2x2", "uniform"]);
    let error = known.iter().find_map(|line| line.strip_prefix("error ")?.parse::<f64>().ok());
    assert!(error.is_some_and(|error| error < 1e-10), "{known:?}");
}

/// Two blocks of `kumiki.h`, in C and C++, in shared memory and as if each were on a machine of its own; one that is killed; and one that leaves early.
fn by_our_interface(stage: &Stage) {
    let [c, cxx] = Language::BOTH.map(|language| stage.compile("kumiki_join", language, &[]));
    let end = |words: &[&str], more: &[(&str, &str)], codes: [Option<i32>; 3]| {
        let blocks = [block(Way::Plain, 2, &c, words), block(Way::Plain, 1, &cxx, words)];
        let ended = converse(stage, &blocks, more);
        for (one, code) in ended.iter().zip(codes) {
            assert_eq!(one.code, code, "{words:?}: {}", one.said);
            assert!(code.is_none() || one.said.contains("ok"), "{words:?}: {}", one.said);
        }
    };
    end(&[], &[], [Some(0); 3]);
    end(&[], &[("WAITIO_SECRET", "known to both of these blocks")], [Some(0); 3]);
    end(&["kill"], &[], [Some(0), Some(0), None]);
    // One that leaves while others go on to write into its memory.
    end(&["memory"], &[], [Some(0); 3]);
    end(&["memory"], &[("WAITIO_SECRET", "known to both of these blocks")], [Some(0); 3]);
    // The program in the documentation compiles as it stands there.
    let text = std::fs::read_to_string(repository().join("docs/join.md")).expect("the documentation");
    let program = text.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a program");
    let source = stage.path("built").join("documented-join.c");
    std::fs::write(&source, program).expect("a file");
    let mut compiler = stage.command("acpcc");
    succeed(
        compiler.args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(source.with_extension("out")).arg(&source),
    );
}

/// The example as its README has it, in a folder that looks like the repository.
fn example(stage: &Stage) {
    let folder = stage.path("joined");
    std::fs::create_dir_all(folder.join("target/join")).expect("a folder");
    let examples = std::path::absolute(repository().join("examples")).expect("a path");
    std::os::unix::fs::symlink(examples, folder.join("examples")).expect("a link");
    let simulation = compiled(
        stage,
        Way::OpenMpi,
        "examples/join/simulation.c",
        "simulation",
        &["-Wl,--no-as-needed", "-lwaitio_mpi"],
    );
    std::fs::rename(simulation, folder.join("target/join/simulation")).expect("a name");
    let mut command = stage.command("kumiki");
    command.current_dir(&folder).args(["run", "--timeout", "60s", "--join", "examples/join/blocks"]);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.env("LD_LIBRARY_PATH", stage.path("lib"));
    let said = succeed(&mut command);
    // Lines of two programs come in any order.
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&said), sorted(include_str!("../../examples/join/expected")));
    assert_eq!(size_of_png(&folder.join("target/join/waves.png")), (1098, 798));
}

/// Width and height of a picture.
fn size_of_png(path: &Path) -> (u32, u32) {
    let bytes = std::fs::read(path).expect("a picture");
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR") && bytes.ends_with(b"IEND\xaeB`\x82"));
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    (number(16), number(20))
}
