package kaggle

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
)

// stripped returns a program without the parts that are not loaded to run it: symbol tables and debug information. They are
// at the end of the file and more than a third of it. The header then says that there are no sections.
func stripped(path string) ([]byte, error) {
	file, err := readFile(path)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	end := uint64(0)
	for _, p := range f.Progs {
		end = max(end, p.Off+p.Filesz)
	}
	if end == 0 || end >= uint64(len(file)) {
		return file, nil
	}
	// Offsets in the header of a 64-bit ELF file: of the sections' offset, their number, and the index of the section with
	// their names.
	const sections, number, names = 0x28, 0x3c, 0x3e
	binary.LittleEndian.PutUint64(file[sections:], 0)
	binary.LittleEndian.PutUint16(file[number:], 0)
	binary.LittleEndian.PutUint16(file[names:], 0)
	return file[:end], nil
}
