//! AddressSanitizer and valgrind: what the programs and the library do with the memory of the process.

use crate::stage::{succeed, Language, Stage};
use crate::suites::PROGRAMS;
use crate::{test, Test};

pub(crate) fn tests() -> Vec<Test> {
    vec![test("memory::address_sanitizer", address_sanitizer), test("memory::valgrind", valgrind)]
}

/// The programs with the sanitizer in them: it watches every allocation of the process, those of the library included,
/// and looks for leaks at the end.
fn address_sanitizer(stage: &Stage) {
    for (name, words) in PROGRAMS {
        let program = stage.compile(name, Language::C, &["-fsanitize=address"]);
        for nodes in ["1", "2"] {
            let mut command = stage.acprun(&["-np", "2", "-smemsize", "10240"], &program, words);
            let command = command.env("KUMIKI_VIRTUAL_NODES", nodes).env("ASAN_OPTIONS", "detect_leaks=1");
            // A rank that still reports an error ends with another code, and the job with it.
            let said = succeed(command);
            assert!(!said.contains("Sanitizer"), "{said}");
        }
    }
}

/// The programs under valgrind, which looks at every instruction of the library, too.
fn valgrind(stage: &Stage) {
    for (name, words) in PROGRAMS {
        let program = stage.compile(name, Language::C, &[]);
        let program = program.to_str().expect("a path");
        let checker = [
            "--error-exitcode=9",
            "--quiet",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
            program,
        ];
        let words: Vec<&str> = checker.iter().chain(words.iter()).copied().collect();
        let valgrind = std::path::Path::new("valgrind");
        // Valgrind cannot map as much as the machine may have memory.
        let mut command = stage.acprun(&["-np", "2", "-smemsize", "10240"], valgrind, &words);
        succeed(command.env("KUMIKI_SLICE", "256M"));
    }
}
