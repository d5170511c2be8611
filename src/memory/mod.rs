//! Who has leased how many bytes of which device.
