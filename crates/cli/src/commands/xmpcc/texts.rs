//! Texts of any encoding, and what is taken out of them.

/// Without the lines that say where others come from.
pub(super) fn without_markers(text: &str) -> String {
    let is_marker = |line: &&str| {
        line.strip_prefix("# ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    text.split_inclusive('\n').filter(|line| !is_marker(line)).collect()
}

/// Bytes that are no UTF-8, such as those of texts in EUC-JP or Latin-1, are these characters meanwhile.
const FIRST_STRANGER: u32 = 0xf700;

/// The text of a file, whatever its encoding: [`bytes_of`] gives its bytes back.
pub(super) fn text_of(bytes: &[u8]) -> String {
    let stranger = |byte: &u8| char::from_u32(FIRST_STRANGER + u32::from(*byte)).unwrap_or_default();
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for known in chunk.valid().chars() {
            // One that stands for a byte is told byte by byte itself.
            match (FIRST_STRANGER..FIRST_STRANGER + 256).contains(&u32::from(known)) {
                true => text.extend(known.encode_utf8(&mut [0; 4]).as_bytes().iter().map(stranger)),
                false => text.push(known),
            }
        }
        text.extend(chunk.invalid().iter().map(stranger));
    }
    text
}

/// The text of a source, without the mark of its encoding at the beginning.
pub(super) fn source_of(bytes: &[u8]) -> String {
    text_of(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
}

pub(super) fn bytes_of(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for known in text.chars() {
        match u32::from(known).checked_sub(FIRST_STRANGER).and_then(|byte| u8::try_from(byte).ok()) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(known.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_encoding_of_a_text_its_bytes_come_back() {
        let texts: [&[u8]; 4] =
            [b"plain", "\u{7d44}\u{6728}".as_bytes(), b"\xc1\xc8\xcc\xda and \xe9", b"\xef\x9f\xa9\xff"];
        for bytes in texts {
            assert_eq!(bytes_of(&text_of(bytes)), bytes);
        }
        assert!(text_of(b"int \xe9;").starts_with("int "));
    }

    #[test]
    fn text_without_markers_is_that_of_the_program() {
        assert_eq!(
            without_markers("# 1 \"a.c\"\nint i;\n#pragma omp x\n# 3 \"a.c\" 2\nint j;"),
            "int i;\n#pragma omp x\nint j;"
        );
    }
}
