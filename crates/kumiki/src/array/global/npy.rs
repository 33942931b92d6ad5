//! Files that NumPy reads (`.npy`): every rank writes and reads its own elements, at their places.

use super::indexed::agreed;
use super::Array;
use crate::array::space::{misuse, Mapping};
use crate::{Error, Pod, Result, World};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const MAGIC: &[u8] = b"\x93NUMPY";

/// An element that NumPy has a name for.
pub trait NpyElement: Pod {
    /// Its name, for this machine's order of bytes.
    const DESCRIPTION: &'static str;
}

macro_rules! elements {
    ($($name:ty => $little:literal,)*) => {$(
        impl NpyElement for $name {
            const DESCRIPTION: &'static str = $little;
        }
    )*};
}

#[cfg(target_endian = "little")]
elements! {
    f32 => "<f4", f64 => "<f8", i8 => "|i1", i16 => "<i2", i32 => "<i4", i64 => "<i8",
    u8 => "|u1", u16 => "<u2", u32 => "<u4", u64 => "<u8", [f32; 2] => "<c8", [f64; 2] => "<c16",
}

fn failed(call: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::System { call, errno: error.raw_os_error().unwrap_or(5) }
}

fn header(description: &str, sizes: &[u64]) -> Vec<u8> {
    let sizes: String = sizes.iter().map(|size| format!("{size}, ")).collect();
    let mut text =
        format!("{{'descr': '{description}', 'fortran_order': False, 'shape': ({}), }}", sizes.trim_end());
    // The elements begin at a multiple of 64 bytes.
    while !(MAGIC.len() + 4 + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// The value behind a key of a header.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let rest = &text[text.find(key)? + key.len()..];
    Some(rest[rest.find(':')? + 1..].trim_start())
}

/// Where the elements begin, if the file has those that are wanted.
fn read_header(file: &mut File, description: &str, sizes: &[u64]) -> Result<u64> {
    let mut start = [0; 10];
    file.read_exact(&mut start).map_err(failed("read"))?;
    if &start[..6] != MAGIC {
        return Err(misuse("this is no .npy file"));
    }
    let (length, begin) = match start[6] {
        1 => (u32::from(u16::from_le_bytes([start[8], start[9]])), 10),
        _ => {
            let mut more = [0; 2];
            file.read_exact(&mut more).map_err(failed("read"))?;
            (u32::from_le_bytes([start[8], start[9], more[0], more[1]]), 12)
        }
    };
    if length > 1 << 20 {
        return Err(misuse(format!("a .npy file with a header of {length} bytes")));
    }
    let mut text = vec![0; length as usize];
    file.read_exact(&mut text).map_err(failed("read"))?;
    let text = String::from_utf8_lossy(&text);
    let wrong = || misuse(format!("a .npy file that says {}", text.trim()));
    let kind = value(&text, "'descr'").ok_or_else(wrong)?;
    if !kind.starts_with(&format!("'{description}'")) {
        return Err(misuse(format!(
            "elements {description} are wanted of a .npy file that says {}",
            text.trim()
        )));
    }
    if !value(&text, "'fortran_order'").ok_or_else(wrong)?.starts_with("False") {
        return Err(misuse("a .npy file whose first dimension is the fastest: save it in C's order"));
    }
    let shape = value(&text, "'shape'")
        .and_then(|shape| shape.strip_prefix('(')?.split(')').next())
        .ok_or_else(wrong)?;
    let given: Vec<u64> = shape.split(',').filter_map(|size| size.trim().parse().ok()).collect();
    if given != sizes {
        return Err(misuse(format!("an array of sizes {sizes:?} from a .npy file of {given:?}")));
    }
    Ok(begin + u64::from(length))
}

impl<'w, T: NpyElement, const N: usize> Array<'w, T, N> {
    /// Writes all elements to a file, in parallel: `numpy.load` reads it. All nodes see the file under this name. Collective.
    ///
    /// ```
    /// # use kumiki::array::Array;
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = kumiki::World::init()?;
    /// # let folder = std::env::temp_dir().join(format!("kumiki-npy-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder).unwrap();
    /// # let path = folder.join("heat.npy");
    /// let mut heat = Array::<f32, 2>::block(&world, &[20, 30], &[1, 1])?;
    /// heat.update(|[i, j], cell| *cell = (i - j) as f32);
    /// heat.save(&path)?;
    /// let again = Array::<f32, 2>::load(&world, heat.mapping(), &path)?;
    /// again.for_each(|[i, j], value| assert_eq!(value, (i - j) as f32));
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// # drop((heat, again));
    /// # world.finalize()
    /// # }
    /// ```
    #[track_caller]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.check("save", String::new)?;
        let (world, path) = (self.world(), path.as_ref());
        let group = self.group()?;
        let (start, sizes) = (header(T::DESCRIPTION, &self.mapping.sizes()), self.mapping.sizes());
        let bytes = self.mapping.len() * size_of::<T>() as u64;
        let made = match group.rank() {
            0 => File::create(path).map_err(failed("create")).and_then(|file| {
                file.write_all_at(&start, 0).map_err(failed("pwrite"))?;
                file.set_len(start.len() as u64 + bytes).map_err(failed("ftruncate"))
            }),
            _ => Ok(()),
        };
        world.note(agreed(group, made))?;
        let written = OpenOptions::new().write(true).open(path).map_err(failed("open")).and_then(|file| {
            self.rows_of_file(&sizes, |at, cells| {
                file.write_all_at(bytemuck::cast_slice(cells), start.len() as u64 + at)
                    .map_err(failed("pwrite"))
            })
        });
        world.note(agreed(group, written))
    }

    /// Calls a function with where each own row is in the elements of a file, and the row.
    fn rows_of_file(&self, sizes: &[u64], mut work: impl FnMut(u64, &[T]) -> Result<()>) -> Result<()> {
        let mut all = Ok(());
        self.for_rows(|first, cells| {
            let place = first.iter().zip(sizes).fold(0, |place, (at, size)| place * size + *at as u64);
            if all.is_ok() {
                all = work(place * size_of::<T>() as u64, cells);
            }
        });
        all
    }

    /// Makes an array of what a file has: one that [`save`](Self::save) or NumPy has written, of this type and these sizes. Nothing is communicated.
    #[track_caller]
    pub fn load(world: &'w World, mapping: &Arc<Mapping>, path: impl AsRef<Path>) -> Result<Array<'w, T, N>> {
        let mut array = Array::new(world, mapping)?;
        let sizes = mapping.sizes();
        world.note((|| {
            let mut file = File::open(path).map_err(failed("open"))?;
            let start = read_header(&mut file, T::DESCRIPTION, &sizes)?;
            let mut all = Ok(());
            array.update_rows(|first, cells| {
                let place = first.iter().zip(&sizes).fold(0, |place, (at, size)| place * size + *at as u64);
                if all.is_ok() {
                    let at = start + place * size_of::<T>() as u64;
                    all = file.read_exact_at(bytemuck::cast_slice_mut(cells), at).map_err(failed("pread"));
                }
            });
            all
        })())?;
        Ok(array)
    }
}
