//! An animated PNG of several screens (<https://www.w3.org/TR/png-3/#apng-frame-based-animation>).

use std::time::Duration;

use png::{BitDepth, BlendOp, ColorType, Compression, DisposeOp, Encoder, EncodingError};
use steplatch_terminal::Picture;

use crate::canvas::Canvas;
use crate::png::paint;
use crate::size::TooLarge;

/// Returns the screens as an animation that repeats. Each frame after the first has only the rows of pixels that differ.
/// Players that show no animation show the first frame. Empty without screens.
///
/// # Errors
/// If a screen has more than 60,000 cells.
pub fn apng(frames: &[(&Picture, Duration)]) -> Result<Vec<u8>, TooLarge> {
    let Some((first, _)) = frames.first() else { return Ok(Vec::new()) };
    frames.iter().try_for_each(|(picture, _)| TooLarge::check(picture.cols, picture.rows.len()))?;
    let mut output = Vec::new();
    write(&mut output, paint(first), frames).expect("writing an image to memory cannot fail");
    Ok(output)
}

fn write(output: &mut Vec<u8>, first: Canvas, frames: &[(&Picture, Duration)]) -> Result<(), EncodingError> {
    let count = u32::try_from(frames.len()).unwrap_or(u32::MAX);
    let mut writer = begin(output, &first, count)?;
    let mut previous: Option<Canvas> = None;
    for (picture, duration) in frames {
        let canvas = paint(picture);
        let whole = (0, canvas.height as usize);
        let rows = previous.as_ref().map_or(whole, |previous| changed_rows(previous, &canvas));
        write_frame(&mut writer, &canvas, rows, *duration)?;
        previous = Some(canvas);
    }
    writer.finish()
}

fn begin<'o>(
    output: &'o mut Vec<u8>,
    canvas: &Canvas,
    count: u32,
) -> Result<png::Writer<&'o mut Vec<u8>>, EncodingError> {
    let mut encoder = Encoder::new(output, canvas.width as u32, canvas.height as u32);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::Balanced);
    encoder.set_animated(count, 0)?;
    encoder.set_blend_op(BlendOp::Source)?;
    encoder.set_dispose_op(DisposeOp::None)?;
    encoder.write_header()
}

fn write_frame(
    writer: &mut png::Writer<&mut Vec<u8>>,
    canvas: &Canvas,
    (first, last): (usize, usize),
    duration: Duration,
) -> Result<(), EncodingError> {
    let bytes_per_row = canvas.width as usize * 3;
    writer.reset_frame_position()?;
    writer.set_frame_dimension(canvas.width as u32, (last - first) as u32)?;
    writer.set_frame_position(0, first as u32)?;
    let centiseconds = (duration.as_millis() / 10).clamp(1, u128::from(u16::MAX));
    writer.set_frame_delay(u16::try_from(centiseconds).unwrap_or(u16::MAX), 100)?;
    writer.write_image_data(&canvas.pixels[first * bytes_per_row..last * bytes_per_row])
}

/// Returns the range of rows of pixels that differ; at least one row, since a frame is not empty.
fn changed_rows(previous: &Canvas, canvas: &Canvas) -> (usize, usize) {
    let bytes_per_row = canvas.width as usize * 3;
    let rows = previous.pixels.chunks_exact(bytes_per_row).zip(canvas.pixels.chunks_exact(bytes_per_row));
    let differs: Vec<bool> = rows.map(|(before, after)| before != after).collect();
    let first = differs.iter().position(|differs| *differs).unwrap_or(0);
    let last = differs.iter().rposition(|differs| *differs).map_or(first + 1, |last| last + 1);
    (first, last)
}

#[cfg(test)]
mod tests {
    use steplatch_terminal::{Rgb, Run, Style};

    use super::*;

    fn picture(text: &str) -> Picture {
        let cols = text.chars().count() as u16;
        let run = Run { col: 0, cols, wide: false, text: text.to_owned(), style: Style::default(), link: None };
        let (foreground, background) = (Rgb(255, 255, 255), Rgb(0, 0, 0));
        Picture {
            cols: 8,
            rows: vec![Vec::new(), vec![run]],
            cursor: None,
            foreground,
            background,
            palette: Vec::new(),
        }
    }

    #[test]
    fn decoded_frames_are_the_screens() {
        let screens = [picture("one"), picture("two"), picture("two")];
        let bytes = apng(&[0, 1, 2].map(|index| (&screens[index], Duration::from_millis(120)))).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&bytes)).read_info().unwrap();
        assert_eq!(reader.info().animation_control().unwrap().num_frames, 3);
        let mut canvas = vec![0; reader.output_buffer_size().unwrap()];
        let mut frame = canvas.clone();
        for screen in &screens {
            let info = reader.next_frame(&mut frame).unwrap();
            let control = *reader.info().frame_control().unwrap();
            assert_eq!((control.delay_num, control.delay_den), (12, 100));
            let begin = control.y_offset as usize * info.line_size;
            canvas[begin..begin + info.buffer_size()].copy_from_slice(&frame[..info.buffer_size()]);
            assert!(canvas == paint(screen).pixels);
        }
    }
}
