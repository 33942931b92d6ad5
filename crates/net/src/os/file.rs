//! Files and programs by their paths: which of them may be trusted, how much of one is read, how one is replaced.
//!
//! What another user could have put there is neither read for a secret nor run. A file is judged by its open descriptor, so
//! that what was judged is what is used. A folder is judged with all folders above it: where nobody else can change any of them,
//! its path leads to the same place the next time.

use super::process::user;
use crate::{Error, Result};
use rustix::fs::{accessat, Access, AtFlags, CWD};
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{Error as IoError, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whoever may write besides the owner.
const OTHERS_WRITE: u32 = 0o022;
/// In a folder of everybody, only the owner of an entry may move or remove it.
const STICKY: u32 = 0o1000;
/// How many names are tried for a temporary file.
const NAMES: u32 = 16;
/// How many links a path may lead through, as for the kernel.
const LINKS: u32 = 40;

/// A folder of this user that nobody else can write to; it is made if it is not there, for this user alone. Returns its path
/// without links.
pub fn private_folder(path: &Path) -> Result<PathBuf> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| refused(path, &format!("it cannot be made: {error}")))?;
    folder(path, &|owner| owner == user())
}

/// A folder of this user or of root that nobody else can write to. Returns its path without links.
pub fn trusted_folder(path: &Path) -> Result<PathBuf> {
    folder(path, &is_trusted)
}

fn folder(path: &Path, is_good_owner: &dyn Fn(u32) -> bool) -> Result<PathBuf> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP | libc::ENOTDIR) => refused(path, "it is a link, or no folder"),
        _ => refused(path, &error.to_string()),
    })?;
    let data = file.metadata().map_err(|error| refused(path, &error.to_string()))?;
    judge(path, &data, is_good_owner, 0)?;
    let real = path.canonicalize().map_err(|error| refused(path, &error.to_string()))?;
    for above in real.ancestors().skip(1) {
        let data = above.symlink_metadata().map_err(|error| refused(above, &error.to_string()))?;
        judge(above, &data, &is_trusted, STICKY)?;
    }
    // Nobody else can change the way there: this is what was opened, or it is what an owner of the way has put in its place.
    let there = real.symlink_metadata().map_err(|error| refused(path, &error.to_string()))?;
    match (there.dev(), there.ino()) == (data.dev(), data.ino()) {
        true => Ok(real),
        false => Err(refused(path, "somebody moves it about")),
    }
}

fn is_trusted(owner: u32) -> bool {
    owner == user() || owner == 0
}

/// Whether a folder is one that only good owners can change; `excuse` is the bit of its mode by which others do no harm.
fn judge(path: &Path, data: &Metadata, is_good_owner: &dyn Fn(u32) -> bool, excuse: u32) -> Result<()> {
    if !is_good_owner(data.uid()) {
        return Err(refused(path, &format!("it belongs to another user (number {})", data.uid())));
    }
    if data.mode() & OTHERS_WRITE != 0 && data.mode() & excuse == 0 {
        let why = format!(
            "others may write to it (mode {:04o}): look what is in it, then chmod go-w",
            data.mode() & 0o7777
        );
        return Err(refused(path, &why));
    }
    Ok(())
}

/// Whether there is a program of this user that nobody else has made or can change, in a folder that was found to be good.
pub fn is_own_program(path: &Path) -> bool {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let data = file.and_then(|file| file.metadata());
    data.is_ok_and(|data| {
        data.is_file() && data.uid() == user() && data.mode() & OTHERS_WRITE == 0 && data.mode() & 0o100 != 0
    })
}

/// The `kumiki` command that belongs to the library or program that this code is in, if there is one beside it, in the `bin` of its
/// installation, or on the `PATH`; only if nobody but this user and root can change it.
pub fn own_command() -> Option<PathBuf> {
    let object = own_object().and_then(|path| path.canonicalize().ok());
    let folder = object.as_deref().and_then(Path::parent).map(Path::to_owned);
    let beside = folder
        .into_iter()
        .flat_map(|folder| ["", "..", "../bin"].map(|step| folder.join(step).join("kumiki")));
    let found = beside.chain(find_program("kumiki")).filter_map(|path| path.canonicalize().ok());
    found.into_iter().find(|path| {
        let is_good = |folder| trusted_folder(folder).is_ok();
        let data = path.symlink_metadata();
        is_program(path)
            && path.parent().is_some_and(is_good)
            && data.is_ok_and(|data| is_trusted(data.uid()) && data.mode() & OTHERS_WRITE == 0)
    })
}

/// The file of the library or program that this code is in.
fn own_object() -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: all zeros are one of its values, and `dladdr` is given a place for it and an address of this very code; the name that it finds lives as
    // long as the object, which we are in.
    let name = unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(own_object as *const libc::c_void, &mut found) == 0 || found.dli_fname.is_null() {
            return None;
        }
        std::ffi::CStr::from_ptr(found.dli_fname)
    };
    let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    // A program is called as it was started, perhaps without its folder.
    if path.is_absolute() {
        Some(path)
    } else {
        std::env::current_exe().ok()
    }
}

/// The bytes of a file of this user that nobody else can read; otherwise why not.
pub fn read_private(path: &Path, most_bytes: u64) -> std::result::Result<Vec<u8>, String> {
    // A pipe that nobody writes to must not hold us up.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = file.map_err(|error| error.to_string())?;
    let data = file.metadata().map_err(|error| error.to_string())?;
    let mode = data.mode() & 0o777;
    if !data.is_file() {
        return Err("it is not a file".into());
    }
    if mode & 0o077 != 0 {
        return Err(format!("others may read it (mode {mode:04o}): chmod 600 {}", path.display()));
    }
    if data.uid() != user() {
        return Err(format!("it belongs to another user (number {}), who knows what is in it", data.uid()));
    }
    read_bytes(file, most_bytes).map_err(|error| error.to_string())
}

/// The text of a file of at most so many bytes. Longer ones, and those that never end, are refused.
pub fn read_text(path: &Path, most_bytes: u64) -> std::io::Result<String> {
    read_text_from(File::open(path)?, most_bytes)
}

/// The same of what is open.
pub fn read_text_from(reader: impl Read, most_bytes: u64) -> std::io::Result<String> {
    let bytes = read_bytes(reader, most_bytes)?;
    String::from_utf8(bytes).map_err(|_| IoError::new(ErrorKind::InvalidData, "it is not a text in UTF-8"))
}

/// Everything that comes from a reader, if that is at most so many bytes.
pub fn read_bytes(reader: impl Read, most_bytes: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most_bytes {
        true => Err(IoError::new(ErrorKind::InvalidData, format!("it is longer than {most_bytes} bytes"))),
        false => Ok(bytes),
    }
}

/// Where programs are looked for when nobody says.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The file of a program, as a shell finds it: a path stays what it is, a name is looked up in `PATH`. Entries of `PATH` that are
/// relative (or empty) are passed over: what lies in the current folder is not run because of its name.
pub fn find_program(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    find_program_in(name.as_ref(), &path_variable())
}

/// The same in a `PATH` of the caller.
pub fn find_program_in(name: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(|file| is_program(file));
    }
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|file| is_program(file))
}

/// Whether there is a file that this process may run.
pub fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file()) && access(path, Access::EXEC_OK).is_ok()
}

/// What starts a program that is found as [`find_program`] does. What it starts in turn by a name (a compiler the assembler) is
/// not found in the current folder either: its `PATH` has no relative entries.
pub fn command(name: impl AsRef<OsStr>) -> Option<Command> {
    let mut command = Command::new(find_program(&name)?);
    command.arg0(name).env("PATH", without_relative(&path_variable()));
    Some(command)
}

fn path_variable() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into())
}

/// A `PATH` that is empty would be the current folder.
fn without_relative(path: &OsStr) -> OsString {
    let joined = std::env::join_paths(std::env::split_paths(path).filter(|folder| folder.is_absolute()));
    joined.ok().filter(|path| !path.is_empty()).unwrap_or_else(|| USUAL_PATH.into())
}

/// Whether this process may do that to a file, as the user that it acts for.
fn access(path: &Path, wanted: Access) -> std::io::Result<()> {
    Ok(accessat(CWD, path, wanted, AtFlags::EACCESS)?)
}

/// Writes a file wholly or not at all: what was there before stays until the new one is complete, and a failure leaves nothing.
/// What is no file (a pipe, a device) is written to.
pub fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let (place, old) = match target(path)? {
        Target::Other(_) => return write_to(&mut open_to_append(path)?, write),
        Target::File(place, old) => (place, old),
    };
    let (mut file, temporary) = temporary_beside(&place)?;
    // Rights that somebody else has given are none of ours.
    let own = old.filter(|data| data.uid() == user());
    let mode = own.map(|data| std::os::unix::fs::PermissionsExt::from_mode(data.mode() & 0o777));
    let kept = mode.map_or(Ok(()), |mode| file.set_permissions(mode));
    // A disk may notice only now that it is full.
    let written = kept.and_then(|()| write_to(&mut file, write)).and_then(|()| file.sync_data());
    let done = written.and_then(|()| std::fs::rename(&temporary, &place));
    if done.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    done
}

/// Whether [`replace`] could begin now. Leaves everything as it is, and waits for nobody.
pub fn can_replace(path: &Path) -> std::io::Result<()> {
    match target(path)? {
        Target::Other(data) if data.is_dir() => Err(IoError::from_raw_os_error(libc::EISDIR)),
        Target::Other(_) => access(path, Access::WRITE_OK),
        Target::File(place, _) => {
            temporary_beside(&place).and_then(|(_, temporary)| std::fs::remove_file(temporary))
        }
    }
}

/// Opens what is to be written to piece by piece, at its end; a file is made if it is not there. What was judged is what is
/// opened: a link that somebody puts there meanwhile is not followed.
pub fn open_to_append(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    match target(path)? {
        Target::Other(data) => {
            let file = options.append(true).open(path)?;
            let opened = file.metadata()?;
            match (opened.dev(), opened.ino()) == (data.dev(), data.ino()) {
                true => Ok(file),
                false => Err(denied("somebody moves it about")),
            }
        }
        Target::File(place, _) => {
            // A pipe that somebody puts there meanwhile must not hold us up.
            let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
            let file = options.append(true).create(true).custom_flags(flags).open(&place)?;
            let data = file.metadata()?;
            match data.is_file() && !is_strangers(&place, &data) {
                true => Ok(file),
                false => Err(denied("another user has put it there")),
            }
        }
    }
}

/// Where a file that is to be written to lies: the path itself, or where its link leads. What is no file keeps its path, for
/// `/dev/stdout` leads to what may have no name.
pub fn written_place(path: &Path) -> std::io::Result<PathBuf> {
    match target(path)? {
        Target::File(place, _) => std::path::absolute(place),
        Target::Other(_) => std::path::absolute(path),
    }
}

fn write_to(
    file: &mut File,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut buffer = std::io::BufWriter::new(file);
    write(&mut buffer)?;
    buffer.flush()
}

/// What is to be written to.
enum Target {
    /// A file without links, and what is there now.
    File(PathBuf, Option<Metadata>),
    /// Something else.
    Other(Metadata),
}

/// Judges what a path leads to that is to be written to. A link of another user is not followed: it could lead to any file of
/// ours. Nor is a pipe of another user opened, who decides how long that takes.
fn target(path: &Path) -> std::io::Result<Target> {
    let end = last_of_links(path)?;
    let there = end.symlink_metadata().ok();
    if there.is_some_and(|data| data.file_type().is_fifo() && !is_trusted(data.uid())) {
        return Err(denied("it is a pipe of another user"));
    }
    match path.metadata() {
        Ok(data) if !data.is_file() => Ok(Target::Other(data)),
        Ok(data) => {
            let place = if end == path { end } else { path.canonicalize()? };
            match is_strangers(&place, &data) {
                true => Err(denied("it is a file of another user, in a folder of everybody")),
                false => Ok(Target::File(place, Some(data))),
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound && end == path => Ok(Target::File(end, None)),
        // A link to what is not there leads to nowhere.
        Err(error) => Err(error),
    }
}

/// Where the links at the end of a path lead; none of them is of another user. Those of the system that lead to an open file
/// lead to a name that is not there.
fn last_of_links(path: &Path) -> std::io::Result<PathBuf> {
    let mut end = path.to_path_buf();
    for _ in 0..LINKS {
        match end.symlink_metadata() {
            Ok(data) if data.is_symlink() && !is_trusted(data.uid()) => {
                return Err(denied("it is a link of another user"));
            }
            Ok(data) if data.is_symlink() => {
                let next = end.read_link()?;
                end.pop();
                end.push(next);
            }
            _ => return Ok(end),
        }
    }
    Err(IoError::from_raw_os_error(libc::ELOOP))
}

/// Whether a file is one that another user has put into a folder of everybody.
fn is_strangers(place: &Path, data: &Metadata) -> bool {
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    data.uid() != user() && folder.metadata().is_ok_and(|folder| folder.mode() & STICKY != 0)
}

fn denied(why: &str) -> IoError {
    IoError::new(ErrorKind::PermissionDenied, why)
}

/// A new file in the folder of another, under a name that nobody can know.
fn temporary_beside(path: &Path) -> std::io::Result<(File, PathBuf)> {
    let mut last = IoError::from_raw_os_error(libc::EEXIST);
    for _ in 0..NAMES {
        let mut random = [0; 8];
        super::random_bytes(&mut random).map_err(IoError::other)?;
        let temporary = path.with_file_name(format!(".kumiki-{:016x}", u64::from_ne_bytes(random)));
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((file, temporary)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn refused(path: &Path, why: &str) -> Error {
    Error::Refused(format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{mknodat, FileType, Mode};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{chown, symlink, PermissionsExt};

    /// A folder that is gone when the test ends.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("kumiki-file-{}-{name}", std::process::id()));
            Scratch(private_folder(&path).expect("a folder"))
        }

        fn entries(&self) -> usize {
            std::fs::read_dir(&self.0).expect("a folder").count()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    }

    /// Gives a file to another user; only root can.
    fn give_away(path: &Path) -> bool {
        user() == 0 && chown(path, Some(12345), None).is_ok()
    }

    #[test]
    fn a_folder_that_others_own_or_write_to_is_not_private() {
        let scratch = Scratch::new("private");
        let folder = scratch.0.join("a/b");
        assert_eq!(private_folder(&folder), Ok(folder.clone()));
        let said = |path: &Path| private_folder(path).expect_err("refused").to_string();
        for mode in [0o777, 0o720, 0o702, 0o1777] {
            set_mode(&folder, mode);
            assert!(said(&folder).contains("others may write to it"), "{mode:o}");
        }
        set_mode(&folder, 0o755);
        assert!(private_folder(&folder).is_ok());
        let link = scratch.0.join("link");
        symlink(&folder, &link).expect("a link");
        assert!(said(&link).contains("it is a link"));
        if give_away(&folder) {
            assert!(said(&folder).contains("another user (number 12345)"));
            assert!(trusted_folder(&folder).is_err());
        }
    }

    #[test]
    fn a_folder_below_one_that_others_write_to_is_not_private() {
        let scratch = Scratch::new("above");
        let (above, folder) = (scratch.0.join("above"), scratch.0.join("above/folder"));
        assert!(private_folder(&folder).is_ok());
        set_mode(&above, 0o777);
        assert!(private_folder(&folder).is_err(), "others could put another in its place");
        set_mode(&above, 0o1777);
        assert!(private_folder(&folder).is_ok(), "nobody else can move it");
        if give_away(&above) {
            assert!(private_folder(&folder).is_err());
        }
    }

    #[test]
    fn a_program_that_others_made_or_can_change_is_not_our_own() {
        let scratch = Scratch::new("program");
        let program = scratch.0.join("program");
        std::fs::write(&program, "").expect("a file");
        for (mode, good) in [(0o700, true), (0o755, true), (0o777, false), (0o600, false)] {
            set_mode(&program, mode);
            assert_eq!(is_own_program(&program), good, "{mode:o}");
        }
        set_mode(&program, 0o700);
        let link = scratch.0.join("link");
        symlink(&program, &link).expect("a link");
        assert!(!is_own_program(&link) && !is_own_program(&scratch.0));
        assert!(!give_away(&program) || !is_own_program(&program));
    }

    #[test]
    fn a_secret_that_another_user_owns_is_no_secret() {
        let scratch = Scratch::new("secret");
        let file = scratch.0.join("secret");
        std::fs::write(&file, "words").expect("a file");
        set_mode(&file, 0o600);
        assert_eq!(read_private(&file, 5), Ok(b"words".to_vec()));
        assert!(read_private(&file, 4).expect_err("long").contains("longer than 4 bytes"));
        assert!(read_private(Path::new("/dev/zero"), 4).is_err());
        if give_away(&file) {
            assert!(read_private(&file, 5).expect_err("theirs").contains("another user"));
        }
    }

    #[test]
    fn a_file_that_never_ends_is_not_read_for_ever() {
        let error = read_text(Path::new("/dev/zero"), 1 << 16).expect_err("long");
        assert!(error.to_string().contains("longer than 65536 bytes"), "{error}");
    }

    #[test]
    fn a_program_is_not_found_in_the_current_folder() {
        let scratch = Scratch::new("path");
        let program = scratch.0.join("program");
        std::fs::write(&program, "").expect("a file");
        set_mode(&program, 0o700);
        let (name, folder) = (OsStr::new("program"), scratch.0.as_os_str());
        assert_eq!(find_program_in(name, folder), Some(program.clone()));
        assert_eq!(find_program_in(program.as_os_str(), OsStr::new("")), Some(program));
        // As many levels up as it takes, and down again: a relative way to the same folder.
        let depth = std::env::current_dir().expect("a folder").components().count() - 1;
        let relative = "../".repeat(depth) + scratch.0.to_str().expect("UTF-8").trim_start_matches('/');
        assert!(Path::new(&relative).join(name).is_file());
        assert_eq!(find_program_in(name, OsStr::new(&format!(":{relative}:."))), None);
    }

    #[test]
    fn a_file_is_replaced_wholly_or_not_at_all() {
        let scratch = Scratch::new("replace");
        let file = scratch.0.join("file");
        let put = |text: &'static str| replace(&file, |out| out.write_all(text.as_bytes()));
        put("old").expect("written");
        let failed = replace(&file, |out| out.write_all(b"half").and(Err(IoError::other("full"))));
        assert_eq!(failed.expect_err("full").to_string(), "full");
        assert_eq!((std::fs::read_to_string(&file).expect("a file").as_str(), scratch.entries()), ("old", 1));
        set_mode(&file, 0o640);
        put("new").expect("written");
        assert_eq!(file.metadata().expect("a file").mode() & 0o777, 0o640);
        assert_eq!((std::fs::read_to_string(&file).expect("a file").as_str(), scratch.entries()), ("new", 1));
    }

    #[test]
    fn what_is_no_file_is_written_to_and_not_replaced() {
        let scratch = Scratch::new("device");
        let link = scratch.0.join("link");
        symlink("/dev/full", &link).expect("a link");
        let error = replace(&link, |out| out.write_all(b"x")).expect_err("full");
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        assert!(link.symlink_metadata().expect("a link").is_symlink());
        assert!(replace(&scratch.0, |_| Ok(())).is_err(), "a folder");
    }

    #[test]
    fn a_pipe_without_a_name_was_no_place_to_write_to() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let scratch = Scratch::new("magic");
        let (path, link) = (format!("/dev/fd/{}", writer.as_raw_fd()), scratch.0.join("link"));
        symlink(&path, &link).expect("a link");
        for path in [Path::new(&path), &link] {
            can_replace(path).expect("it can be written");
            replace(path, |out| out.write_all(b"text")).expect("written");
            open_to_append(path).and_then(|mut file| file.write_all(b"more")).expect("written");
        }
        drop(writer);
        let mut said = String::new();
        reader.read_to_string(&mut said).expect("text");
        assert_eq!(said, "textmoretextmore");
    }

    #[test]
    fn a_pipe_that_nobody_reads_held_the_question_up() {
        let scratch = Scratch::new("fifo");
        let pipe = scratch.0.join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        can_replace(&pipe).expect("our own");
        if give_away(&pipe) {
            let said = |error: IoError| error.to_string();
            let expected = "it is a pipe of another user";
            assert_eq!(can_replace(&pipe).map_err(said), Err(expected.into()));
            assert_eq!(replace(&pipe, |_| Ok(())).map_err(said), Err(expected.into()));
            assert_eq!(open_to_append(&pipe).map(drop).map_err(said), Err(expected.into()));
        }
    }

    #[test]
    fn the_rights_of_a_file_of_another_user_were_copied() {
        let scratch = Scratch::new("rights");
        let file = scratch.0.join("file");
        std::fs::write(&file, "theirs").expect("a file");
        set_mode(&file, 0o4777);
        replace(&file, |out| out.write_all(b"ours")).expect("our own");
        assert_eq!(file.metadata().expect("a file").mode() & 0o7777, 0o777);
        if give_away(&file) {
            replace(&file, |out| out.write_all(b"ours")).expect("the folder is ours");
            assert_ne!(file.metadata().expect("a file").mode() & 0o777, 0o777);
            // Nobody but its owner may move a file of such a folder; root may, and does not.
            set_mode(&scratch.0, 0o1777);
            assert!(give_away(&file) && can_replace(&file).is_err() && open_to_append(&file).is_err());
        }
    }

    #[test]
    fn a_program_that_we_may_not_run_is_passed_over() {
        let scratch = Scratch::new("rights-to-run");
        let program = scratch.0.join("program");
        std::fs::write(&program, "").expect("a file");
        for (mode, good) in [(0o600, false), (0o700, true)] {
            set_mode(&program, mode);
            assert_eq!(is_program(&program), good, "{mode:o}");
        }
        assert!(!is_program(&scratch.0));
    }

    #[test]
    fn what_a_program_starts_was_found_in_the_current_folder() {
        let clean = |path: &str| without_relative(OsStr::new(path)).into_string().expect("UTF-8");
        assert_eq!(clean("::.:/a:b:/c:"), "/a:/c");
        assert_eq!(clean(":."), USUAL_PATH);
        let command = command("sh").expect("a shell");
        let set = command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
        let folders: Vec<PathBuf> = std::env::split_paths(set.expect("a PATH")).collect();
        assert!(!folders.is_empty() && folders.iter().all(|folder| folder.is_absolute()));
    }

    #[test]
    fn a_link_that_another_user_planted_is_not_followed() {
        let scratch = Scratch::new("link");
        let (file, link) = (scratch.0.join("file"), scratch.0.join("link"));
        std::fs::write(&file, "mine").expect("a file");
        symlink(&file, &link).expect("a link");
        replace(&link, |out| out.write_all(b"ours")).expect("our own link");
        assert_eq!(std::fs::read_to_string(&file).expect("a file"), "ours");
        if user() == 0 && std::os::unix::fs::lchown(&link, Some(12345), None).is_ok() {
            let first = scratch.0.join("first");
            symlink(&link, &first).expect("a link of ours to theirs");
            for link in [&link, &first] {
                assert!(replace(link, |out| out.write_all(b"theirs")).is_err());
                assert!(open_to_append(link).is_err() && written_place(link).is_err());
            }
            assert_eq!(std::fs::read_to_string(&file).expect("a file"), "ours");
        }
    }
}
