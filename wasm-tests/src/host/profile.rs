//! The profile of a module that counts how often it runs each part of its code, as LLVM's raw file for `llvm-profdata`
//! (compiler-rt's `InstrProfData.inc`, version 10). The module has no runtime that could write it, so the host reads the
//! sections in its memory: `crates/xtask/scripts/wasm-profile.rs` tells where they are.

use super::vm::Vm;

/// `lprofR` between 0xff and 0x81: a raw profile with pointers of 32 bits.
const MAGIC: u64 = 0xff6c_7072_6f66_5281;
/// What `edge_profile` tells: where a section begins; one more, where it ends.
const DATA: u32 = 0;
const COUNTERS: u32 = 2;
const NAMES: u32 = 4;
const VERSION: u32 = 6;
/// The size of a function's row in the data section, with pointers of 32 bits.
const ROW: usize = 48;
/// The highest kind of values that LLVM knows; this profile has none of any.
const LAST_VALUE_KIND: u64 = 2;

/// How often a module has run each part of its code.
#[derive(Debug)]
pub struct Profile {
    version: u64,
    data: Vec<u8>,
    names: Vec<u8>,
    counters: Vec<u64>,
    /// From the data to the counters, as the module's addresses have it
    distance: u64,
    names_address: u64,
}

impl Profile {
    /// Adds the counts of another run of the same module.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.counters.iter_mut().zip(&other.counters) {
            *sum = sum.saturating_add(*count);
        }
    }

    /// The bytes of a `.profraw` file.
    pub fn to_raw(&self) -> Vec<u8> {
        let padding = |length: usize| vec![0; length.next_multiple_of(8) - length];
        let number = |length: usize| length as u64;
        let after_data = padding(self.data.len());
        let header = [
            MAGIC,
            self.version,
            0, // ids of programs
            number(self.data.len() / ROW),
            number(after_data.len()),
            number(self.counters.len()),
            0, // padding behind the counters
            0, // bitmaps
            0, // padding behind them
            number(self.names.len()),
            self.distance,
            0, // from the data to the bitmaps
            self.names_address,
            0, // tables of virtual functions
            0, // their names
            LAST_VALUE_KIND,
        ];
        let mut raw: Vec<u8> = header.iter().flat_map(|field| field.to_le_bytes()).collect();
        raw.extend(&self.data);
        raw.extend(after_data);
        raw.extend(self.counters.iter().flat_map(|count| count.to_le_bytes()));
        raw.extend(&self.names);
        raw.extend(padding(self.names.len()));
        raw
    }
}

impl Vm {
    /// Lets the module count from zero.
    ///
    /// # Errors
    /// The module does not count.
    pub fn forget_counts(&mut self) -> Result<(), String> {
        let section = self.section(COUNTERS)?;
        self.bytes(section)?.fill(0);
        Ok(())
    }

    /// What the module has counted.
    ///
    /// # Errors
    /// The module does not count.
    pub fn profile(&mut self) -> Result<Profile, String> {
        let (data, counters, names) = (self.section(DATA)?, self.section(COUNTERS)?, self.section(NAMES)?);
        let distance = (counters.start as u32).wrapping_sub(data.start as u32);
        let (distance, names_address) = (u64::from(distance), names.start as u64);
        let counters = self.bytes(counters)?.as_chunks::<8>().0.iter().map(|count| u64::from_le_bytes(*count)).collect();
        let (data, names) = (self.bytes(data)?.to_vec(), self.bytes(names)?.to_vec());
        Ok(Profile { version: self.tell(VERSION)?, data, names, counters, distance, names_address })
    }

    fn section(&mut self, number: u32) -> Result<std::ops::Range<usize>, String> {
        let mut place = |which| usize::try_from(self.tell(which)?).map_err(|error| error.to_string());
        Ok(place(number)?..place(number + 1)?)
    }

    fn tell(&mut self, which: u32) -> Result<u64, String> {
        let function = self.instance.get_typed_func::<u32, u64>(&mut self.store, "edge_profile");
        let function = function.map_err(|error| format!("the module does not count: {error}"))?;
        function.call(&mut self.store, which).map_err(|error| error.to_string())
    }

    fn bytes(&mut self, range: std::ops::Range<usize>) -> Result<&mut [u8], String> {
        let memory = self.state().memory.ok_or("there is no memory")?;
        memory.data_mut(&mut self.store).get_mut(range).ok_or_else(|| "a section is outside of the memory".to_owned())
    }
}
