//! A picture of pixels, with rectangles, lines, dots and text; and its way into a PNG file.

use plotters::prelude::{
    BitMapBackend, DrawingBackend, FontDesc, FontFamily, FontStyle, RGBColor, TextStyle,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{register_font, Color};
use std::path::Path;
use std::sync::Once;

pub(super) const PAPER: RGBColor = RGBColor(255, 255, 255);
pub(super) const INK: RGBColor = RGBColor(31, 41, 51);
pub(super) const MUTED: RGBColor = RGBColor(97, 110, 124);
pub(super) const GRID: RGBColor = RGBColor(226, 231, 236);
pub(super) const ACCENT: RGBColor = RGBColor(192, 57, 43);

/// Colours of series: told apart by people who see colours differently, too.
pub(super) const PALETTE: [RGBColor; 6] = [
    RGBColor(15, 105, 160),
    RGBColor(226, 135, 37),
    RGBColor(42, 157, 111),
    RGBColor(174, 68, 120),
    RGBColor(122, 92, 199),
    RGBColor(138, 138, 138),
];

/// Heights of text in pixels.
pub(super) const TITLE: u32 = 44;
pub(super) const TEXT: u32 = 27;
pub(super) const SMALL: u32 = 24;

const FAMILY: &str = "kumiki";

/// Where a text lies relative to its point.
#[derive(Clone, Copy)]
pub(super) enum At {
    /// It begins there.
    Left,
    /// Its middle is there.
    Centre,
    /// It ends there.
    Right,
}

/// A picture.
pub(super) struct Canvas {
    width: u32,
    height: u32,
    pixels: Vec<u8>,
}

impl Canvas {
    pub(super) fn new(width: u32, height: u32) -> Canvas {
        static FONTS: Once = Once::new();
        FONTS.call_once(|| {
            // The bytes are part of the program: they are a font, or the tests of this module fail.
            let _ = register_font(FAMILY, FontStyle::Normal, notosans::REGULAR_TTF);
            let _ = register_font(FAMILY, FontStyle::Bold, notosans::BOLD_TTF);
        });
        Canvas { width, height, pixels: vec![PAPER.0; (width * height * 3) as usize] }
    }

    /// Title and subtitle, at the top left.
    pub(super) fn heading(&mut self, left: i32, title: &str, subtitle: &str) {
        self.text_with((left, 58), title, TITLE, FontStyle::Bold, INK, At::Left);
        self.text((left, 110), subtitle, TEXT, MUTED, At::Left);
    }

    pub(super) fn rectangle(&mut self, from: (i32, i32), to: (i32, i32), colour: RGBColor) {
        let _ = self.backend().draw_rect(from, to, &colour.to_rgba(), true);
    }

    pub(super) fn line(&mut self, from: (i32, i32), to: (i32, i32), colour: RGBColor, width: u32) {
        let _ = self.backend().draw_path([from, to], &colour.stroke_width(width));
    }

    pub(super) fn path(&mut self, points: &[(i32, i32)], colour: RGBColor, width: u32) {
        let _ = self.backend().draw_path(points.iter().copied(), &colour.stroke_width(width));
    }

    pub(super) fn dashes(&mut self, from: (i32, i32), to: (i32, i32), colour: RGBColor) {
        let vertical = from.0 == to.0;
        let (start, end) = if vertical { (from.1, to.1) } else { (from.0, to.0) };
        for at in (start..end).step_by(16) {
            let stop = (at + 9).min(end);
            let (a, b) =
                if vertical { ((from.0, at), (from.0, stop)) } else { ((at, from.1), (stop, from.1)) };
            self.line(a, b, colour, 3);
        }
    }

    pub(super) fn dot(&mut self, at: (i32, i32), radius: u32, colour: RGBColor) {
        let _ = self.backend().draw_circle(at, radius, &colour.to_rgba(), true);
    }

    /// Sets one pixel.
    pub(super) fn pixel(&mut self, x: u32, y: u32, colour: RGBColor) {
        if x < self.width && y < self.height {
            let at = ((y * self.width + x) * 3) as usize;
            self.pixels[at..at + 3].copy_from_slice(&[colour.0, colour.1, colour.2]);
        }
    }

    /// Text whose middle height is at the point.
    pub(super) fn text(&mut self, at: (i32, i32), text: &str, size: u32, colour: RGBColor, place: At) {
        self.text_with(at, text, size, FontStyle::Normal, colour, place);
    }

    fn text_with(
        &mut self,
        at: (i32, i32),
        text: &str,
        size: u32,
        weight: FontStyle,
        colour: RGBColor,
        place: At,
    ) {
        let style = style(size, weight, colour);
        let width = self.backend().estimate_text_size(text, &style).map_or(0, |(width, _)| width as i32);
        let x = match place {
            At::Left => at.0,
            At::Centre => at.0 - width / 2,
            At::Right => at.0 - width,
        };
        // What plotters calls the middle is a little above that of the letters.
        let _ = self.backend().draw_text(text, &style, (x, at.1 + size as i32 / 9));
    }

    /// How wide a text is.
    pub(super) fn text_width(&mut self, text: &str, size: u32) -> i32 {
        let style = style(size, FontStyle::Normal, INK);
        self.backend().estimate_text_size(text, &style).map_or(0, |(width, _)| width as i32)
    }

    /// A row of coloured names.
    pub(super) fn legend(&mut self, at: (i32, i32), names: &[String]) {
        let mut x = at.0;
        for (index, name) in names.iter().enumerate() {
            let colour = PALETTE[index % PALETTE.len()];
            self.rectangle((x, at.1 - 11), (x + 22, at.1 + 11), colour);
            self.text((x + 34, at.1), name, TEXT, INK, At::Left);
            x += 34 + self.text_width(name, TEXT) + 44;
        }
    }

    /// Writes the picture, wholly or not at all; the message says where it could not.
    pub(super) fn save(&self, path: &Path) -> Result<(), String> {
        let written = kumiki_run::system::replace(path, |out| {
            self.encode(out).map_err(|error| match error {
                png::EncodingError::IoError(error) => error,
                error => std::io::Error::other(error),
            })
        });
        written.map_err(|error| format!("cannot write the picture {}: {error}", path.display()))
    }

    fn encode(&self, out: &mut dyn std::io::Write) -> Result<(), png::EncodingError> {
        let mut encoder = png::Encoder::new(out, self.width, self.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Balanced);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.pixels)?;
        writer.finish()
    }

    /// Drawing outside the picture is clipped, and drawing into memory cannot fail: results are not looked at.
    fn backend(&mut self) -> BitMapBackend<'_> {
        BitMapBackend::with_buffer(&mut self.pixels, (self.width, self.height))
    }
}

fn style(size: u32, weight: FontStyle, colour: RGBColor) -> TextStyle<'static> {
    let font = FontDesc::new(FontFamily::Name(FAMILY), size as f64, weight);
    TextStyle { font, color: colour.to_backend_color(), pos: Pos::new(HPos::Left, VPos::Center) }
}
