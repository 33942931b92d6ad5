//! A program as a user begins one: a new crate, outside this repository, whose only dependency is `kumiki`.

use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = r#"
#![forbid(unsafe_code)]
#![deny(warnings)]

#[derive(Clone, Copy, kumiki::Pod, kumiki::Zeroable)]
#[repr(C)]
pub struct Particle {
    place: [f64; 3],
    mass: f32,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, kumiki::Pod, kumiki::Zeroable)]
#[repr(transparent)]
struct Kind(u32);

#[derive(Clone, Copy, kumiki::Pod, kumiki::Zeroable)]
#[repr(C, packed)]
struct Tagged<T> {
    tag: u8,
    value: T,
}

fn main() -> kumiki::Result<()> {
    let world = kumiki::World::init()?;
    let particles = world.alloc::<Particle>(2)?;
    world.put(particles.ptr(), Particle { place: [0.5; 3], mass: 1.5, kind: Kind(7) })?;
    let found = world.get(particles.ptr())?;
    assert!(found.kind == Kind(7) && found.mass == 1.5 && found.place[2] == 0.5);
    let tagged = world.alloc::<Tagged<u64>>(1)?;
    let Tagged { tag, value } = world.get(tagged.ptr())?;
    assert_eq!((tag, value), (0, 0));
    drop((particles, tagged));
    world.finalize()
}
"#;

#[test]
fn a_crate_that_depends_on_kumiki_alone_derives_plain_data() {
    let kumiki = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fresh-crate");
    std::fs::create_dir_all(folder.join("src")).unwrap();
    let manifest = format!(
        "[package]\nname = \"fresh-crate\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n\n\
         [dependencies]\nkumiki = {{ path = {kumiki:?} }}\n"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    std::fs::write(folder.join("src/main.rs"), PROGRAM).unwrap();
    // The versions that this build has: others may not have been fetched.
    std::fs::copy(kumiki.join("../../Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let done = Command::new(env!("CARGO"))
        .args(["check", "--offline", "--quiet", "--target-dir", "target"])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
