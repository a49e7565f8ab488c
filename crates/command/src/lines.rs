//! The lines of logs, files and standard input: plain or compressed with gzip, of any number and length.

use flate2::bufread::MultiGzDecoder;
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

/// The greatest length of a line that is read, in bytes. Envoy's lines are far shorter; what is longer is no line of a log.
const LONGEST: u64 = 1 << 20;
/// The first bytes of a gzip file (RFC 1952 section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];
const BUFFER: usize = 256 << 10;

/// The lines of one file.
pub(crate) struct LogLines {
    reader: Box<dyn BufRead>,
    buffer: Vec<u8>,
    /// The number of the line that was read last, from 1 on.
    number: u64,
}

/// One line.
pub(crate) enum InputLine<'l> {
    /// Without the line break
    Text(&'l [u8]),
    /// Longer than 1 MiB; its content has been skipped.
    TooLong,
}

impl LogLines {
    /// Opens a file; `-` is standard input. `progress` counts the bytes as they stand in the file.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    pub(crate) fn open(path: &Path, progress: &ProgressBar) -> io::Result<Self> {
        let raw: Box<dyn Read> =
            if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
        let mut raw = BufReader::with_capacity(BUFFER, progress.wrap_read(raw));
        let mut beginning = Vec::new();
        (&mut raw).take(GZIP.len() as u64).read_to_end(&mut beginning)?;
        let compressed = beginning == GZIP;
        let whole = Cursor::new(beginning).chain(raw);
        let reader: Box<dyn BufRead> = if compressed {
            Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(whole)))
        } else {
            Box::new(whole)
        };
        Ok(Self { reader, buffer: Vec::new(), number: 0 })
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read, or is no correct gzip from here on.
    pub(crate) fn next(&mut self) -> io::Result<Option<InputLine<'_>>> {
        self.buffer.clear();
        let length = (&mut self.reader).take(LONGEST + 1).read_until(b'\n', &mut self.buffer)?;
        if length == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        } else if length as u64 > LONGEST {
            self.reader.skip_until(b'\n')?;
            return Ok(Some(InputLine::TooLong));
        }
        Ok(Some(InputLine::Text(&self.buffer)))
    }

    /// The number of the line that was read last, from 1 on; 0 before the first.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }
}
