//! The headers in every language standard, and what the library exports.

use crate::stage::{program_source, repository, succeed, Stage};
use crate::{test, Test};
use std::collections::BTreeSet;
use std::process::Command;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test("headers::every_standard", every_standard),
        test("headers::the_library_exports_what_they_declare_and_nothing_else", exports),
        test("headers::pkg_config", pkg_config),
        test("headers::waitio_is_found_by_all_its_names", waitio_names),
        test("headers::what_is_installed_carries_nothing_for_debuggers", stripped),
    ]
}

/// No warning in any of them, even with `-pedantic`.
fn every_standard(stage: &Stage) {
    let c = ["c89", "gnu89", "c99", "gnu99", "c11", "gnu17"].map(|standard| ("gcc", "c", standard));
    let cxx = ["c++98", "gnu++98", "c++11", "c++17", "c++20"].map(|standard| ("g++", "c++", standard));
    for (compiler, language, standard) in c.into_iter().chain(cxx) {
        succeed(
            Command::new(compiler)
                .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-x", language])
                .arg(format!("-std={standard}"))
                .arg("-I")
                .arg(stage.path("include"))
                .arg(program_source("header")),
        );
    }
}

/// The names of the functions that a header declares.
pub(crate) fn declared(header: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(repository().join("crates/c/include").join(header)).expect("a header");
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut names = BTreeSet::new();
    let is_own = |line: &str| ["typedef", "static"].iter().any(|word| line.starts_with(word));
    let declares = |line: &&str| !line.starts_with(['#', ' ', '/', '}']) && !is_own(line);
    for line in text.lines().filter(declares) {
        let Some((before, _)) = line.split_once('(') else { continue };
        names.extend(before.rsplit(|letter| !is_name(letter)).next().map(str::to_owned));
    }
    names
}

/// The names of the routines that the module of Fortran has.
fn subroutines() -> BTreeSet<String> {
    let module = repository().join("crates/c/fortran/waitio_mpif90.f90");
    let text = std::fs::read_to_string(module).expect("a module");
    let name = |line: &str| Some(line.trim().strip_prefix("subroutine ")?.split('(').next()?.to_owned());
    text.lines().filter_map(name).collect()
}

fn exports(stage: &Stage) {
    let library = stage.path("lib/libkumiki.so");
    let table = succeed(Command::new("nm").args(["-D", "--defined-only", "-f", "posix"]).arg(&library));
    let exported: BTreeSet<String> =
        table.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    let mut wanted = declared("kumiki.h");
    assert!(wanted.len() > 30, "{wanted:?}");
    wanted.extend(declared("acp.h"));
    wanted.extend(declared("waitio.h"));
    wanted.extend(declared("waitio_mpi.h"));
    wanted.extend(declared("xmp.h"));
    wanted.extend(declared("kumiki_xmp.h"));
    let fortran = subroutines();
    assert!(fortran.len() > 50 && fortran.iter().all(|name| wanted.contains(name)), "{fortran:?}");
    wanted.extend(fortran.iter().flat_map(|name| [format!("{name}_"), format!("{name}_f_")]));
    wanted.insert("truef_".into());
    let missing: Vec<_> = wanted.difference(&exported).collect();
    let surplus: Vec<_> = exported.difference(&wanted).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing: {missing:?}\nsurplus: {surplus:?}");
    let dynamic = succeed(Command::new("readelf").arg("-d").arg(&library));
    assert!(dynamic.contains("soname: [libkumiki.so.0.1]"), "{dynamic}");
}

/// It would be several times as large.
fn stripped(stage: &Stage) {
    for file in ["lib/libkumiki.so", "lib/libkumiki.a"] {
        let sections = succeed(Command::new("readelf").args(["-S", "--wide"]).arg(stage.path(file)));
        assert!(sections.contains(".text") && !sections.contains(".debug_info"), "{file}");
    }
}

/// What programs of WaitIO link, by every name, dynamically and, with a `truef` of their own, statically.
fn waitio_names(stage: &Stage) {
    let source = repository().join("tests/c/waitio/ring.c");
    let program = stage.path("built/by-name");
    let names =
        ["waitio", "waitio_mpi", "waitio_intel", "waitio_mpi_intel", "waitio_a64fx", "waitio_mpi_a64fx"];
    let ask = |name: &str| {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", stage.path("lib/pkgconfig")).args(["--cflags", "--libs", name]);
        succeed(&mut command)
    };
    let by_hand = |name: &str| {
        let (include, lib) = (stage.path("include"), stage.path("lib"));
        format!("-I{} -L{lib} -Wl,-rpath,{lib} -l{name}", include.display(), lib = lib.display())
    };
    let archive = stage.path("lib/libwaitio.a");
    let inside = format!(
        "-I{} {} -lpthread -lm -ldl -lrt -DOWN_TRUEF",
        stage.path("include").display(),
        archive.display()
    );
    let ways = names.map(by_hand).into_iter().chain([ask("waitio"), ask("waitio_mpi"), inside]);
    for flags in ways {
        succeed(Command::new("gcc").arg(&source).args(flags.split_whitespace()).arg("-o").arg(&program));
        let mut alone = stage.command("kumiki");
        alone = {
            let mut direct = Command::new(&program);
            alone.get_envs().filter(|(_, value)| value.is_none()).for_each(|(name, _)| {
                direct.env_remove(name);
            });
            direct
        };
        assert!(succeed(&mut alone).contains("ok 0 0 of 1"));
    }
}

fn pkg_config(stage: &Stage) {
    let ask = |words: &[&str]| {
        let mut command = Command::new("pkg-config");
        succeed(command.env("PKG_CONFIG_PATH", stage.path("lib/pkgconfig")).args(words).arg("kumiki"))
    };
    assert_eq!(ask(&["--modversion"]).trim(), env!("CARGO_PKG_VERSION"));
    let flags = ask(&["--cflags", "--libs"]);
    let program = stage.path("built/by-pkg-config");
    succeed(
        Command::new("gcc")
            .arg(program_source("kumiki_api"))
            .args(flags.split_whitespace())
            .arg("-o")
            .arg(&program),
    );
    succeed(&mut stage.acprun(&["-np", "2"], &program, &[]));
}
