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
        test("headers::linkers_dropped_the_library_that_stands_before_the_source", dropped_by_linkers),
        test("headers::fortran_programs_are_linked_statically", static_fortran),
        test("headers::cmake", cmake),
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

/// What pkg-config says of some packages, one of them or several.
fn asked(stage: &Stage, words: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", stage.path("lib/pkgconfig")).args(words);
    succeed(&mut command).split_whitespace().map(str::to_owned).collect()
}

/// A program of WaitIO, alone: with no variables of those who run the tests.
fn runs_alone(stage: &Stage, program: &std::path::Path) {
    let mut alone = Command::new(program);
    for (name, _) in stage.command("kumiki").get_envs().filter(|(_, value)| value.is_none()) {
        alone.env_remove(name);
    }
    let said = succeed(&mut alone);
    // Fortran puts more space between them.
    assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains("ok 0 0 of 1"), "{said}");
}

/// Some distributions have `--as-needed` as the default: what nothing before it has asked for is dropped.
fn dropped_by_linkers(stage: &Stage) {
    let folder = repository().join("tests/c");
    let packages: [&[&str]; 5] =
        [&["acp"], &["kumiki"], &["waitio"], &["waitio_mpi"], &["acp", "waitio", "waitio_mpi", "kumiki"]];
    for (at, names) in packages.iter().enumerate() {
        let flags = asked(stage, &[&["--cflags", "--libs"], *names].concat());
        let build = |source: &std::path::Path, name: String, shape: &[&str]| {
            let program = stage.path("built").join(name);
            succeed(
                Command::new("gcc")
                    .args(["-Wl,--as-needed", "-Wl,--no-undefined"])
                    .args(shape)
                    .args(&flags)
                    .arg(source)
                    .arg("-o")
                    .arg(&program),
            );
            program
        };
        let ring = build(&folder.join("waitio/ring.c"), format!("dropped-ring-{at}"), &[]);
        runs_alone(stage, &ring);
        // Nothing of it is named in the program, which looks for it when it runs.
        let looks = build(&folder.join("programs/looks.c"), format!("dropped-looks-{at}"), &["-pie"]);
        succeed(&mut Command::new(looks));
    }
    let shown = succeed(stage.command("acpcc").args(["--showme:link"]));
    let looks = stage.path("built/dropped-by-wrapper");
    let mut gcc = Command::new("gcc");
    gcc.arg("-Wl,--as-needed").args(shown.split_whitespace()).arg(folder.join("programs/looks.c"));
    succeed(gcc.arg("-o").arg(&looks));
    succeed(&mut Command::new(looks));
}

/// Everything static, or only our library and that of Fortran.
fn static_fortran(stage: &Stage) {
    let source = repository().join("tests/c/waitio/ring.f90");
    let flags = asked(stage, &["--static", "--cflags", "--libs", "waitio_mpi"]);
    let archive = stage.path("lib/libwaitio_mpi.a");
    let private: Vec<String> = flags.iter().filter(|flag| !flag.contains("waitio_mpi")).cloned().collect();
    let archive = archive.to_str().expect("UTF-8").to_owned();
    let ours_alone = [vec![archive], private].concat();
    for (name, options, flags) in [
        ("all", &["-static"][..], &flags),
        ("fortran", &["-static-libgfortran"], &flags),
        ("ours", &["-static-libgfortran", "-static-libgcc"], &ours_alone),
    ] {
        let program = stage.path("built").join(format!("static-{name}"));
        let mut gfortran = Command::new("gfortran");
        gfortran.arg("-cpp").args(options).arg(&source).args(flags).arg("-o").arg(&program);
        gfortran.arg("-I").arg(stage.path("include")).arg("-J").arg(stage.path("built"));
        succeed(&mut gfortran);
        runs_alone(stage, &program);
        let dynamic = succeed(Command::new("readelf").arg("-d").arg(&program));
        assert!(!dynamic.contains("libgfortran"), "{name}: {dynamic}");
        assert_eq!(dynamic.contains("libkumiki"), name == "fortran", "{name}: {dynamic}");
    }
}

/// A project of CMake, with each target, under a linker that drops what is not needed.
fn cmake(stage: &Stage) {
    if Command::new("cmake").arg("--version").output().is_err() {
        eprintln!("there is no cmake: not tested");
        return;
    }
    let folder = stage.path("built/cmake");
    std::fs::create_dir_all(&folder).expect("a folder");
    let programs = repository().join("tests/c/programs");
    let ring = repository().join("tests/c/waitio/ring.c");
    let text = format!(
        "cmake_minimum_required(VERSION 3.13)\nproject(P C)\nfind_package(Kumiki REQUIRED)\nfind_package(Waitio REQUIRED)\n\
         set(CMAKE_EXE_LINKER_FLAGS -Wl,--as-needed)\n\
         add_executable(kumiki_api {programs}/kumiki_api.c)\ntarget_link_libraries(kumiki_api Kumiki::Kumiki)\n\
         add_executable(fixed {programs}/kumiki_api.c)\ntarget_link_libraries(fixed Kumiki::Static)\n\
         add_executable(looks {programs}/looks.c)\ntarget_link_libraries(looks Waitio::Mpi ${{CMAKE_DL_LIBS}})\n\
         add_executable(both {programs}/looks.c)\ntarget_link_libraries(both Kumiki::Kumiki Waitio::Waitio ${{CMAKE_DL_LIBS}})\n\
         add_executable(ring {ring})\ntarget_link_libraries(ring Waitio::Mpi)\n",
        programs = programs.display(),
        ring = ring.display(),
    );
    std::fs::write(folder.join("CMakeLists.txt"), text).expect("a file");
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", stage.path("").display());
    let mut configure = Command::new("cmake");
    configure
        .env_remove("CC")
        .args(["-G", "Unix Makefiles", "-S"])
        .arg(&folder)
        .arg("-B")
        .arg(folder.join("out"))
        .arg(prefix);
    succeed(&mut configure);
    succeed(Command::new("cmake").arg("--build").arg(folder.join("out")));
    let built = |name: &str| folder.join("out").join(name);
    succeed(&mut Command::new(built("looks")));
    succeed(&mut Command::new(built("both")));
    // One of CMake's options, of which it takes none away.
    let line =
        std::fs::read_to_string(folder.join("out/CMakeFiles/both.dir/link.txt")).expect("how it is linked");
    let library = stage.path("lib/libkumiki.so");
    let kept = format!("--push-state,--no-as-needed,{},--pop-state", library.display());
    assert!(line.replace(",-Wl", "").contains(&kept), "{line}");
    runs_alone(stage, &built("ring"));
    for name in ["kumiki_api", "fixed"] {
        succeed(&mut stage.acprun(&["-np", "2"], &built(name), &[]));
    }
}
