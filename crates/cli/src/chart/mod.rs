//! Charts as PNG files: grouped bars, lines on logarithmic axes, a field as a heat map, and a map of owners.
//!
//! Nothing on the system is needed: the font is part of the program (Noto Sans, SIL Open Font License). Commands
//! fill in a chart and call its `save`. Drawing is by `canvas.rs`, numbers on axes are by `axis.rs`.

mod axis;
mod bars;
mod canvas;
mod heat;
mod lines;
mod owners;

pub(crate) use axis::{bytes_text, Scale, Unit};
pub(crate) use bars::{Bars, Group};
pub(crate) use heat::{Grain, HeatMap, Ruler};
pub(crate) use lines::{Lines, Series};
pub(crate) use owners::Owners;

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder for the pictures of a test; they are worth a look when the drawing has changed.
    fn picture(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("kumiki-{}-{name}.png", std::process::id()))
    }

    fn check(path: &std::path::Path, wide: u32) {
        let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(reader.info().width, wide);
        let first = &pixels[..3];
        let drawn = pixels.chunks_exact(3).filter(|pixel| pixel != &first).count();
        assert!(drawn > 10_000, "only {drawn} pixels differ from the background");
        if std::env::var_os("KEEP_PICTURES").is_none() {
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn bars_are_drawn_on_both_scales() {
        for (name, scale) in [("bars-linear", Scale::Linear), ("bars-log", Scale::Logarithmic)] {
            let path = picture(name);
            let group = |name: &str, a, b| Group { name: name.into(), values: vec![a, b] };
            Bars {
                title: "One-sided operations, 8 bytes".into(),
                subtitle: "median of 1,000, lower is better".into(),
                series: vec!["kumiki".into(), "MPI".into()],
                groups: vec![
                    group("put", Some(0.012), Some(0.2)),
                    group("get", Some(0.3), None),
                    group("fetch-add", Some(1.4), Some(3.2)),
                ],
                unit: Unit::Number("µs"),
                scale,
                references: vec![("floor".into(), 0.9)],
            }
            .save(&path)
            .unwrap();
            check(&path, 1600);
        }
    }

    #[test]
    fn lines_are_drawn() {
        let path = picture("lines");
        let series = |name: &str, top: f64| Series {
            name: name.into(),
            points: (6..27)
                .map(|bits| {
                    let bytes = (1u64 << bits) as f64;
                    (bytes, top * bytes / (bytes + 20_000.0))
                })
                .collect(),
        };
        Lines {
            title: "Put, same node".into(),
            subtitle: "bandwidth against size".into(),
            x_label: "size".into(),
            y_label: "MB/s".into(),
            x_unit: Unit::Bytes,
            y_unit: Unit::Number(""),
            series: vec![series("kumiki", 20_000.0), series("memcpy", 22_000.0), series("MPI", 8_000.0)],
        }
        .save(&path)
        .unwrap();
        check(&path, 1600);
    }

    #[test]
    fn a_field_is_drawn() {
        let path = picture("heat");
        let (width, height) = (64, 32);
        let values: Vec<f64> =
            (0..width * height).map(|i| ((i % width) * (i / width)) as f64 / 20.0).collect();
        HeatMap {
            title: "A field".into(),
            subtitle: "made up".into(),
            width,
            height,
            values,
            grain: Grain::Points,
            top: 100.0,
            unit: "°C",
            columns: Ruler { name: "column".into(), step: 1 },
            rows: Ruler { name: "row".into(), step: 1 },
            rows_of_ranks: vec![16],
        }
        .save(&path)
        .unwrap();
        check(&path, 1480);
    }

    #[test]
    fn a_map_of_owners_is_drawn() {
        let path = picture("owners");
        Owners {
            title: "Who has what".into(),
            subtitle: "made up".into(),
            columns: 8,
            owners: (0..48).map(|at| (at != 5).then_some(at as u32 / 4)).collect(),
            extents: [60, 80],
        }
        .save(&path)
        .unwrap();
        check(&path, 1480);
    }

    #[test]
    fn a_chart_that_cannot_be_written_says_where() {
        let missing = picture("no-such-folder").join("x.png");
        let bars = Bars {
            title: String::new(),
            subtitle: String::new(),
            series: vec![],
            groups: vec![],
            unit: Unit::Bytes,
            scale: Scale::Linear,
            references: vec![],
        };
        let error = bars.save(&missing).unwrap_err();
        assert!(error.contains("x.png"), "{error}");
    }
}
