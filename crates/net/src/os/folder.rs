//! Folders by their descriptors: what is in them is made, opened and removed by its name there, and never through a link.

use super::named;
use super::process::user;
use crate::{Error, Result};
use rustix::fs::{
    fdatasync, fstat, fstatfs, mkdirat, openat, renameat, unlinkat, AtFlags, Dir, FileType, Mode, OFlags, CWD,
};
use std::fs::DirBuilder;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Folders within folders that are removed at once, at most.
const DEEPEST: u32 = 4;
/// File systems on which all see at once what one has written. On all others (NFS, SMB, FUSE, 9P, AFS, Ceph, and what is not known here) clients may keep it to
/// themselves until they are told, or it is closed, and may remember what was not there.
const PROMPT: [(&str, u64); 10] = [
    ("ext2, ext3, ext4", 0xef53),
    ("xfs", 0x5846_5342),
    ("btrfs", 0x9123_683e),
    ("tmpfs", 0x0102_1994),
    ("ramfs", 0x8584_58f6),
    ("overlayfs", 0x794c_7630),
    ("zfs", 0x2fc1_2fc1),
    ("f2fs", 0xf2f5_2010),
    ("Lustre", 0x0bd0_0bd0),
    ("GPFS", 0x4750_4653),
];

/// A folder of this user that nobody else can look into.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    hesitates: bool,
}

impl Folder {
    /// The folder at a path. It is made, with those above it, if it is not there.
    pub fn private(path: &Path) -> Result<Folder> {
        let wrong = |why: &str| Error::Refused(format!("{}: {why}", path.display()));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| wrong(&format!("it cannot be made: {error}")))?;
        Folder::existing(path)
    }

    /// The folder at a path; an error if there is none.
    pub fn existing(path: &Path) -> Result<Folder> {
        let wrong = |why: &str| Error::Refused(format!("{}: {why}", path.display()));
        let fd = own(CWD, path).map_err(|error| match error {
            Error::System { errno: libc::ELOOP | libc::ENOTDIR, .. } => wrong("it is a link, or no folder"),
            Error::Refused(why) => wrong(&why),
            error => wrong(&error.to_string()),
        })?;
        let kind = fstatfs(&fd).map(|data| data.f_type as u64 & 0xffff_ffff);
        let is_prompt = kind.is_ok_and(|kind| PROMPT.iter().any(|(_, prompt)| *prompt == kind));
        Ok(Folder { fd, hesitates: !is_prompt })
    }

    /// A folder in this one.
    pub fn open(&self, name: &str) -> Result<Folder> {
        let fd = self.look(|folder| own(folder, Path::new(name)))?;
        Ok(Folder { fd, hesitates: self.hesitates })
    }

    /// Opens something here. A client may remember that it was not there: then it is looked once more, in the folder opened anew.
    fn look(&self, open: impl Fn(BorrowedFd<'_>) -> Result<OwnedFd>) -> Result<OwnedFd> {
        match open(self.fd.as_fd()) {
            Err(error) if error.is_missing() && self.hesitates => {
                self.again().map_err(|_| error).and_then(|again| open(again.as_fd()))
            }
            opened => opened,
        }
    }

    /// The same folder, opened anew: so what others have put here since is seen, also where a client remembers what it has read.
    fn again(&self) -> Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        named("open(folder)", openat(&self.fd, ".", flags, Mode::empty()))
    }

    /// Makes a folder in this one; an error if there is something of that name.
    pub fn make(&self, name: &str) -> Result<Folder> {
        named("mkdir", mkdirat(&self.fd, name, Mode::RWXU))?;
        self.open(name)
    }

    /// Whether it was removed: what is made in it would be nowhere.
    pub fn is_gone(&self) -> bool {
        is_removed(&self.fd)
    }

    /// Makes a file for this user alone, to be read and written; an error if there is something of that name.
    pub fn create(&self, name: &str) -> Result<OwnedFd> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        named("open(new file)", openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR))
    }

    /// Opens a file of this user to read it; `None` if there is none.
    pub fn read(&self, name: &str) -> Result<Option<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let open = |folder: BorrowedFd<'_>| named("open(file)", openat(folder, name, flags, Mode::empty()));
        let fd = match self.look(open) {
            Err(error) if error.is_missing() => return Ok(None),
            opened => opened?,
        };
        let data = named("fstat", fstat(&fd))?;
        let is_ours = data.st_uid == user() && FileType::from_raw_mode(data.st_mode) == FileType::RegularFile;
        is_ours.then_some(Some(fd)).ok_or_else(|| Error::Refused(format!("{name} is no file of this user")))
    }

    /// Gives what is here, or in another folder, another name: what has that name is replaced.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        named("rename", renameat(&self.fd, from, &self.fd, to))
    }

    /// The names of what is here.
    pub fn names(&self) -> Result<Vec<String>> {
        let entries = named("getdents", Dir::new(self.again()?))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        Ok(names.filter(|name| name != "." && name != "..").collect())
    }

    /// Removes a file; it may be gone already.
    pub fn remove(&self, name: &str) {
        let _ = unlinkat(&self.fd, name, AtFlags::empty());
    }

    /// Removes a folder if it is empty. Whether it is gone.
    pub fn remove_empty(&self, name: &str) -> bool {
        match named("rmdir", unlinkat(&self.fd, name, AtFlags::REMOVEDIR)) {
            Ok(()) => true,
            Err(error) => error.is_missing(),
        }
    }

    /// Removes a folder with what is in it. Whether it is gone.
    pub fn remove_whole(&self, name: &str) -> bool {
        self.remove_below(name, DEEPEST)
    }

    fn remove_below(&self, name: &str, depth: u32) -> bool {
        if let Some(inside) = self.open(name).ok().filter(|_| depth > 0) {
            for name in inside.names().unwrap_or_default() {
                if !inside.remove_below(&name, depth - 1) {
                    inside.remove(&name);
                }
            }
        }
        self.remove_empty(name)
    }

    /// Whether what is written here must be flushed before others see it.
    pub fn hesitates(&self) -> bool {
        self.hesitates
    }
}

/// Opens a folder if it is this user's alone.
fn own(place: BorrowedFd<'_>, name: &Path) -> Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let fd = named("open(folder)", openat(place, name, flags, Mode::empty()))?;
    let data = named("fstat", fstat(&fd))?;
    if data.st_uid != user() || data.st_mode & 0o077 != 0 {
        return Err(Error::Refused(
            "it must belong to this user, and nobody else may look into it (chmod 700)".into(),
        ));
    }
    Ok(fd)
}

/// Whether what is open here has no name any more.
pub fn is_removed(file: &impl AsFd) -> bool {
    fstat(file).map_or(true, |data| data.st_nlink == 0)
}

/// Reads from a place of a file; less than asked for at its end.
pub fn read_at(file: &impl AsFd, buffer: &mut [u8], at: u64) -> Result<usize> {
    named("pread", rustix::io::pread(file, buffer, at))
}

/// Writes all of it to a place of a file.
pub fn write_at(file: &impl AsFd, mut bytes: &[u8], mut at: u64) -> Result<()> {
    while !bytes.is_empty() {
        let count = named("pwrite", rustix::io::pwrite(file, bytes, at))?;
        (bytes, at) = (&bytes[count..], at + count as u64);
    }
    Ok(())
}

/// Lets others see what was written.
pub fn flush(file: &impl AsFd) -> Result<()> {
    named("fdatasync", fdatasync(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, PermissionsExt};

    #[test]
    fn only_what_is_ours_alone_is_taken_and_links_lead_nowhere() {
        let path = std::env::temp_dir().join(format!("kumiki-folder-{}", std::process::id()));
        let folder = Folder::private(&path).unwrap();
        let inside = folder.make("inside").unwrap();
        assert!(folder.make("inside").is_err());
        let file = inside.create("file").unwrap();
        assert!(inside.create("file").is_err());
        write_at(&file, b"content", 3).unwrap();
        let mut bytes = [1; 12];
        assert_eq!(read_at(&inside.read("file").unwrap().unwrap(), &mut bytes, 0).unwrap(), 10);
        assert_eq!(&bytes[..10], b"\0\0\0content");
        symlink("inside", path.join("link")).unwrap();
        symlink("file", path.join("inside/link")).unwrap();
        assert!(folder.open("link").is_err() && inside.read("link").is_err());
        assert!(inside.read("nothing").unwrap().is_none());
        inside.rename("file", "moved").unwrap();
        let mut names = inside.names().unwrap();
        names.sort();
        assert_eq!(names, ["link", "moved"]);
        assert!(!inside.is_gone());
        assert!(!folder.remove_empty("inside") && folder.remove_whole("inside"));
        // What is gone counts as removed, and is looked for twice where the file system may have forgotten to tell.
        assert!(folder.remove_whole("inside"));
        let slow = Folder { hesitates: true, ..Folder::private(&path).unwrap() };
        assert!(slow.open("inside").unwrap_err().is_missing() && slow.read("nothing").unwrap().is_none());
        assert!(slow.make("slow").unwrap().hesitates() && slow.remove_whole("slow"));
        assert!(inside.is_gone() && !folder.is_gone());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Folder::private(&path).unwrap_err().to_string().contains("chmod 700"));
        std::fs::remove_dir_all(&path).unwrap();
        symlink("/", &path).unwrap();
        assert!(Folder::private(&path).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
