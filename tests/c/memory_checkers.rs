//! AddressSanitizer and valgrind: what the programs and the library do with the memory of the process.

use crate::stage::{succeed, Language, Stage};
use crate::suites::{all_in_one, is_ours, PROGRAMS};
use crate::{test, Test};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test("memory::address_sanitizer", address_sanitizer),
        test("memory::valgrind", valgrind),
        test("memory::valgrind_of_kumiki", valgrind_of_kumiki),
    ]
}

/// The programs with the sanitizer in them: it watches every allocation of the process, those of the library included,
/// and looks for leaks at the end. Three ranks on two nodes reach each other in both ways.
fn address_sanitizer(stage: &Stage) {
    for (name, words) in PROGRAMS {
        let program = stage.compile(name, Language::C, &["-fsanitize=address"]);
        let mut command = stage.acprun(&["-np", "3", "-smemsize", "10240"], &program, words);
        let command = command.env("KUMIKI_VIRTUAL_NODES", "2").env("ASAN_OPTIONS", "detect_leaks=1");
        // A rank that still reports an error ends with another code, and the job with it.
        let said = succeed(command);
        assert!(!said.contains("Sanitizer"), "{said}");
    }
}

/// All programs of `acp.h` in one under valgrind, which looks at every instruction of the library, too.
fn valgrind(stage: &Stage) {
    check(stage, &all_in_one(stage, "for-valgrind"));
}

/// Those of `kumiki.h`, one after the other.
fn valgrind_of_kumiki(stage: &Stage) {
    for (name, _) in PROGRAMS.iter().filter(|(name, _)| is_ours(name)) {
        check(stage, &stage.compile(name, Language::C, &["-DCHECKED"]));
    }
}

fn check(stage: &Stage, program: &std::path::Path) {
    let program = program.to_str().expect("a path");
    let checker =
        ["--error-exitcode=9", "--quiet", "--leak-check=full", "--errors-for-leak-kinds=definite", program];
    // Valgrind cannot map as much as the machine may have memory.
    let mut command =
        stage.acprun(&["-np", "2", "-smemsize", "10240"], std::path::Path::new("valgrind"), &checker);
    // It is slow, and slower where others run.
    succeed(command.env("KUMIKI_SLICE", "256M").env("KUMIKI_TIMEOUT", "600s"));
}
