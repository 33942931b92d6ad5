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
/// File systems whose clients keep what is written to themselves until they are told, or it is closed: NFS, SMB, FUSE, 9P, AFS, Ceph.
const HESITANT: [u64; 7] =
    [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x6573_5546, 0x0102_1997, 0x5346_414f, 0x00c3_6400];

/// A folder of this user that nobody else can look into.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    /// The folder at a path. It is made, with those above it, if it is not there.
    pub fn private(path: &Path) -> Result<Folder> {
        let wrong = |why: &str| Error::Refused(format!("{}: {why}", path.display()));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| wrong(&format!("it cannot be made: {error}")))?;
        Folder::at(CWD, path).map_err(|error| match error {
            Error::System { errno: libc::ELOOP | libc::ENOTDIR, .. } => wrong("it is a link, or no folder"),
            Error::Refused(why) => wrong(&why),
            error => wrong(&error.to_string()),
        })
    }

    /// A folder in this one.
    pub fn open(&self, name: &str) -> Result<Folder> {
        Folder::at(self.0.as_fd(), Path::new(name))
    }

    /// Makes a folder in this one; an error if there is something of that name.
    pub fn make(&self, name: &str) -> Result<Folder> {
        named("mkdir", mkdirat(&self.0, name, Mode::RWXU))?;
        self.open(name)
    }

    fn at(place: BorrowedFd<'_>, name: &Path) -> Result<Folder> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let fd = named("open(folder)", openat(place, name, flags, Mode::empty()))?;
        let data = named("fstat", fstat(&fd))?;
        if data.st_uid != user() || data.st_mode & 0o077 != 0 {
            return Err(Error::Refused(
                "it must belong to this user, and nobody else may look into it (chmod 700)".into(),
            ));
        }
        Ok(Folder(fd))
    }

    /// Whether it was removed: what is made in it would be nowhere.
    pub fn is_gone(&self) -> bool {
        fstat(&self.0).map_or(true, |data| data.st_nlink == 0)
    }

    /// Makes a file for this user alone, to be read and written; an error if there is something of that name.
    pub fn create(&self, name: &str) -> Result<OwnedFd> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        named("open(new file)", openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR))
    }

    /// Opens a file of this user to read it; `None` if there is none.
    pub fn read(&self, name: &str) -> Result<Option<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = match named("open(file)", openat(&self.0, name, flags, Mode::empty())) {
            Err(Error::System { errno: libc::ENOENT | libc::ESTALE, .. }) => return Ok(None),
            opened => opened?,
        };
        let data = named("fstat", fstat(&fd))?;
        let is_ours = data.st_uid == user() && FileType::from_raw_mode(data.st_mode) == FileType::RegularFile;
        is_ours.then_some(Some(fd)).ok_or_else(|| Error::Refused(format!("{name} is no file of this user")))
    }

    /// Gives what is here, or in another folder, another name: what has that name is replaced.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        named("rename", renameat(&self.0, from, &self.0, to))
    }

    /// The names of what is here.
    pub fn names(&self) -> Result<Vec<String>> {
        // Opened anew: so what others have put here since is seen, also where a client remembers what it has read.
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let again = named("open(folder)", openat(&self.0, ".", flags, Mode::empty()))?;
        let entries = named("getdents", Dir::new(again))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        Ok(names.filter(|name| name != "." && name != "..").collect())
    }

    /// Removes a file; it may be gone already.
    pub fn remove(&self, name: &str) {
        let _ = unlinkat(&self.0, name, AtFlags::empty());
    }

    /// Removes a folder if it is empty.
    pub fn remove_empty(&self, name: &str) -> bool {
        unlinkat(&self.0, name, AtFlags::REMOVEDIR).is_ok()
    }

    /// Removes a folder with what is in it.
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
        fstatfs(&self.0).is_ok_and(|data| HESITANT.contains(&(data.f_type as u64 & 0xffff_ffff)))
    }
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
        assert!(inside.is_gone() && !folder.is_gone());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Folder::private(&path).unwrap_err().to_string().contains("chmod 700"));
        std::fs::remove_dir_all(&path).unwrap();
        symlink("/", &path).unwrap();
        assert!(Folder::private(&path).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
