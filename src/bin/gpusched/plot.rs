//! Draws an image with axes and a colour bar to a PNG file.

use std::path::Path;
use std::sync::OnceLock;

use gpusched::io::atomic;
use gpusched::{Error, Result};
use plotters::backend::RGBPixel;
use plotters::coord::Shift;
use plotters::element::BitMapElement;
use plotters::prelude::*;
use plotters::style::register_font;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Maximum width and height of the image in pixels.
const LARGEST: (u32, u32) = (1280, 800);
/// Minimum width and height in pixels of an image to scale.
const SMALLEST: (u32, u32) = (640, 360);
/// Pixels around the image: title above, labels left and below, colour bar right.
const ABOVE: u32 = 110;
const BELOW: u32 = 90;
const LEFT: u32 = 130;
const RIGHT: u32 = 190;
/// Number of colours of the colour bar.
const SHADES: usize = 256;
const FONT: &str = "sans-serif";

/// Values `[column][row]` over a rectangle, in the units of the axes.
pub struct Image {
    pub columns: usize,
    pub values: Vec<f32>,
    pub across: [f64; 2],
    /// Range of the vertical axis, downwards: the first row is at the top.
    pub down: [f64; 2],
}

pub struct Labels {
    pub title: String,
    pub subtitle: String,
    pub across: &'static str,
    pub down: &'static str,
}

#[derive(Clone, Copy)]
pub enum Colours {
    /// Black to white, the usual colours of records.
    Grey,
    /// Blue for negative, red for positive.
    BlueRed,
}

impl Colours {
    /// Returns the colour of a value from -1 to 1.
    fn of(self, value: f64) -> [u8; 3] {
        let value = value.clamp(-1.0, 1.0);
        let byte = |part: f64| (part * 255.0).round() as u8;
        match self {
            Colours::Grey => [byte(0.5 - value / 2.0); 3],
            Colours::BlueRed => {
                let fade = |end: f64| byte(1.0 - value.abs().powf(0.8) * (1.0 - end));
                let [r, g, b] = if value < 0.0 { [0.08, 0.22, 0.58] } else { [0.70, 0.05, 0.10] };
                [fade(r), fade(g), fade(b)]
            }
        }
    }
}

impl Image {
    fn rows(&self) -> usize {
        self.values.len() / self.columns.max(1)
    }

    /// Returns the percentile of the magnitudes; never 0.
    fn clip(&self, percentile: f64) -> f64 {
        let mut sizes: Vec<f32> =
            self.values.iter().map(|value| value.abs()).filter(|size| size.is_finite()).collect();
        if sizes.is_empty() {
            return 1.0;
        }
        let at = ((sizes.len() - 1) as f64 * percentile / 100.0).round() as usize;
        let (_, &mut clip, above) = sizes.select_nth_unstable_by(at, f32::total_cmp);
        // Most values are 0: use the largest magnitude.
        let clip = if clip > 0.0 { clip } else { above.iter().copied().fold(0.0, f32::max) };
        if clip > 0.0 { f64::from(clip) } else { 1.0 }
    }

    /// Interpolates between the four values around a point. `x` and `y` are from 0 to 1.
    fn at(&self, x: f64, y: f64) -> f64 {
        let rows = self.rows();
        let split = |part: f64, count: usize| {
            let exact = part * (count - 1) as f64;
            let low = (exact as usize).min(count.saturating_sub(2));
            (low, (low + 1).min(count - 1), exact - low as f64)
        };
        let (left, right, a) = split(x, self.columns);
        let (top, bottom, b) = split(y, rows);
        let value = |column: usize, row: usize| f64::from(self.values[column * rows + row]);
        let mix = |row| value(left, row) * (1.0 - a) + value(right, row) * a;
        mix(top) * (1.0 - b) + mix(bottom) * b
    }

    fn pixels(&self, size: (u32, u32), clip: f64, colours: Colours) -> Vec<u8> {
        let part = |at: u32, of: u32| (f64::from(at) + 0.5) / f64::from(of);
        let row = |y| (0..size.0).map(move |x| self.at(part(x, size.0), part(y, size.1)));
        (0..size.1).flat_map(row).flat_map(|value| colours.of(value / clip)).collect()
    }
}

/// Draws `image`. The colours saturate at this percentile of its magnitudes. With `true_scale` a
/// metre has the same length on both axes, unless the image would be too narrow or too low.
pub fn draw(
    path: &Path,
    image: &Image,
    labels: &Labels,
    colours: Colours,
    percentile: f64,
    true_scale: bool,
) -> Result<()> {
    let fail = |why: String| Error::io("draw", path, why);
    if image.columns < 2 || image.rows() < 2 {
        return Err(fail("the image has fewer than two columns or rows".into()));
    }
    let fonts = FONTS.get_or_init(|| {
        register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).is_ok()
            && register_font(FONT, FontStyle::Bold, dejavu::sans::bold()).is_ok()
    });
    if !fonts {
        return Err(fail("the font could not be loaded".into()));
    }
    let (mut across, mut down) = LARGEST;
    if true_scale {
        let ratio = (image.down[1] - image.down[0]) / (image.across[1] - image.across[0]);
        across = ((f64::from(down) / ratio) as u32).clamp(SMALLEST.0, LARGEST.0);
        down = ((f64::from(across) * ratio) as u32).clamp(SMALLEST.1, LARGEST.1);
    }
    let size = (LEFT + across + RIGHT, ABOVE + down + BELOW);
    let mut pixels = vec![255; (size.0 * size.1 * 3) as usize];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area();
        paint(&area, (across, down), image, labels, colours, percentile)
            .map_err(|error| fail(error.to_string()))?;
        area.present().map_err(|error| fail(error.to_string()))?;
    }
    let bytes = encode(&pixels, size).map_err(|error| fail(error.to_string()))?;
    atomic::write(path, &bytes)
}

static FONTS: OnceLock<bool> = OnceLock::new();

type Area<'a> = DrawingArea<BitMapBackend<'a>, Shift>;
type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

fn paint(
    area: &Area<'_>,
    size: (u32, u32),
    image: &Image,
    labels: &Labels,
    colours: Colours,
    percentile: f64,
) -> Drawn {
    let ink = RGBColor(30, 30, 30);
    let at = |x: u32, y: u32| (x as i32, y as i32);
    let title = (FONT, 34).into_font().style(FontStyle::Bold).color(&ink);
    area.draw_text(&labels.title, &title, at(LEFT, 16))?;
    area.draw_text(&labels.subtitle, &(FONT, 24).into_font().color(&ink), at(LEFT, 64))?;

    let clip = image.clip(percentile);
    blit(area, at(LEFT, ABOVE), size, image.pixels(size, clip, colours))?;
    let frame = area.clone().shrink((0, ABOVE), (LEFT + size.0, size.1 + BELOW));
    let mut chart = ChartBuilder::on(&frame)
        .set_label_area_size(LabelAreaPosition::Left, LEFT)
        .set_label_area_size(LabelAreaPosition::Bottom, BELOW)
        .build_cartesian_2d(image.across[0]..image.across[1], image.down[1]..image.down[0])?;
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(ink.stroke_width(2))
        .set_all_tick_mark_size(8)
        .x_labels(10)
        .y_labels((size.1 / 80) as usize)
        .x_label_formatter(&|value| number(*value, image.across[1] - image.across[0]))
        .y_label_formatter(&|value| number(*value, image.down[1] - image.down[0]))
        .label_style((FONT, 22).into_font().color(&ink))
        .draw()?;
    let name = (FONT, 26).into_font().color(&ink).pos(Pos::new(HPos::Center, VPos::Center));
    area.draw_text(labels.across, &name, at(LEFT + size.0 / 2, ABOVE + size.1 + BELOW - 26))?;
    area.draw_text(labels.down, &name.transform(FontTransform::Rotate270), at(28, ABOVE + size.1 / 2))?;
    outline(area, at(LEFT, ABOVE), size, ink)?;
    colour_bar(area, size, clip, colours, percentile, ink)
}

fn colour_bar(
    area: &Area<'_>,
    size: (u32, u32),
    clip: f64,
    colours: Colours,
    percentile: f64,
    ink: RGBColor,
) -> Drawn {
    let bar = (28, size.1);
    let left = LEFT + size.0 + 30;
    let gradient = Image {
        columns: 2,
        values: (0..2)
            .flat_map(|_| (0..SHADES).map(|at| 1.0 - 2.0 * at as f32 / (SHADES - 1) as f32))
            .collect(),
        across: [0.0, 1.0],
        down: [1.0, -1.0],
    };
    blit(area, (left as i32, ABOVE as i32), bar, gradient.pixels(bar, 1.0, colours))?;
    outline(area, (left as i32, ABOVE as i32), bar, ink)?;
    let label = (FONT, 20).into_font().color(&ink);
    for part in [1.0, 0.5, 0.0, -0.5, -1.0] {
        let y = f64::from(ABOVE) + f64::from(size.1) * (1.0 - part) / 2.0;
        let x = (left + bar.0) as i32;
        area.draw(&PathElement::new([(x, y as i32), (x + 7, y as i32)], ink.stroke_width(2)))?;
        area.draw_text(&scientific(part * clip), &label, (x + 12, y as i32 - 7))?;
    }
    let caption = (FONT, 20).into_font().color(&ink);
    let y = (ABOVE + size.1 + 16) as i32;
    area.draw_text("Pressure", &caption, (left as i32 + 12, y))?;
    area.draw_text(&format!("clip at {percentile} %"), &caption, (left as i32 + 12, y + 26))?;
    Ok(())
}

fn blit(area: &Area<'_>, at: (i32, i32), size: (u32, u32), pixels: Vec<u8>) -> Drawn {
    let bitmap = BitMapElement::<_, RGBPixel>::with_owned_buffer(at, size, pixels);
    area.draw(&bitmap.ok_or("the image has the wrong size")?)?;
    Ok(())
}

fn outline(area: &Area<'_>, at: (i32, i32), size: (u32, u32), ink: RGBColor) -> Drawn {
    let end = (at.0 + size.0 as i32, at.1 + size.1 as i32);
    area.draw(&Rectangle::new([at, end], ink.stroke_width(2)))?;
    Ok(())
}

/// Formats a number with the decimals that the span of an axis needs.
fn number(value: f64, span: f64) -> String {
    let decimals = (1.5 - span.abs().log10()).ceil().clamp(0.0, 6.0) as usize;
    // Avoids "-0".
    let value = if value.abs() < span.abs() * 1e-9 { 0.0 } else { value };
    format!("{value:.decimals$}")
}

fn scientific(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if (0.01..10_000.0).contains(&size) => {
            let decimals = (2.0 - size.log10().floor()).clamp(0.0, 4.0) as usize;
            format!("{value:.decimals$}")
        }
        _ => format!("{value:.2e}"),
    }
}

fn encode(pixels: &[u8], size: (u32, u32)) -> std::result::Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, size.0, size.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(values: &[f32], columns: usize) -> Image {
        Image { columns, values: values.to_vec(), across: [100.0, 900.0], down: [100.0, 500.0] }
    }

    #[test]
    fn colours_run_from_one_end_to_the_other() {
        let grey = |value| Colours::Grey.of(value)[0];
        assert_eq!([-2.0, -1.0, 0.0, 1.0, 2.0].map(grey), [255, 255, 128, 0, 0]);
        assert_eq!([-1.0, 0.0].map(|value| Colours::BlueRed.of(value)), [[20, 56, 148], [255; 3]]);
        let [r, g, b] = Colours::BlueRed.of(0.5);
        assert!(r > 190 && g < 160 && b < 160, "red for positive values");
    }

    #[test]
    fn clip_is_a_percentile_of_the_magnitudes_and_never_0() {
        for (values, percentile, clip) in [
            (&[-3.0, 1.0, 2.0, f32::NAN][..], 100.0, 3.0),
            (&[-3.0, 1.0, 2.0], 50.0, 2.0),
            (&[0.0, 0.0, 0.0, -5.0], 50.0, 5.0),
            (&[0.0, 0.0], 99.0, 1.0),
            (&[], 99.0, 1.0),
        ] {
            assert_eq!(image(values, 1).clip(percentile), clip, "{values:?}");
        }
    }

    #[test]
    fn values_between_columns_and_rows_are_interpolated() {
        let image = image(&[0.0, 2.0, 4.0, 8.0], 2);
        for (x, y, value) in
            [(0.0, 0.0, 0.0), (0.0, 1.0, 2.0), (1.0, 0.0, 4.0), (1.0, 1.0, 8.0), (0.5, 0.5, 3.5)]
        {
            assert_eq!(image.at(x, y), value, "({x}, {y})");
        }
    }

    #[test]
    fn drawn_image_has_its_scale_its_ticks_and_its_colour_bar() {
        let folder = testkit::Folder::new();
        let path = folder.at("image.png");
        let labels = Labels { title: "t".into(), subtitle: "s".into(), across: "x", down: "z" };
        // Metres down, and pixels across and down: half as high as wide, square, too low, too
        // narrow.
        for (metres, across, down) in
            [(400.0, 1280, 640), (800.0, 800, 800), (80.0, 1280, 360), (8000.0, 640, 800)]
        {
            let image = Image { down: [100.0, 100.0 + metres], ..image(&[-1.0, -1.0, 1.0, 1.0], 2) };
            draw(&path, &image, &labels, Colours::Grey, 100.0, true).unwrap();
            let file = std::io::BufReader::new(std::fs::File::open(&path).unwrap());
            let mut reader = png::Decoder::new(file).read_info().unwrap();
            let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
            let info = reader.next_frame(&mut pixels).unwrap();
            assert_eq!((info.width, info.height), (LEFT + across + RIGHT, ABOVE + down + BELOW));
            let at = |x: u32, y: u32| pixels[((y * info.width + x) * 3) as usize];
            let (white, black) = (at(LEFT + 4, ABOVE + 290), at(LEFT + across - 4, ABOVE + 290));
            assert!(white > 250 && black < 5, "-1 is white, 1 is black");
            let left = LEFT + across + 30;
            let bar = [3, down / 2, down - 3].map(|y| at(left + 14, ABOVE + y));
            assert!(bar[0] < 5 && bar[1].abs_diff(128) < 3 && bar[2] > 250, "{bar:?}");
            let below = |x| (0..20).any(|y| at(x, ABOVE + down + 16 + y) < 128);
            assert!((left..left + 100).any(below), "a caption below the bar");
            let dark = |y: &u32| at(LEFT - 5, *y) < 128 && at(LEFT - 5, *y - 1) >= 128;
            let ticks = (ABOVE - 5..ABOVE + down + 5).filter(dark).count();
            assert!((2..=down as usize / 80).contains(&ticks), "{ticks} ticks");
        }
    }
}
