package kaggle

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
)

// stripped is a program without what is not loaded to run it: the tables of symbols and debug information, which lie behind
// all of it and are a third of the file and more. The header then says that there are no sections.
func stripped(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > 4*MaxSize {
		return nil, fmt.Errorf("%s has %d MiB", path, info.Size()>>20)
	}
	file, err := os.ReadFile(path)
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
	// Places in the header of a 64-bit file: the sections' offset, and at its end their number and the index of their names.
	const sections, number, names = 0x28, 0x3c, 0x3e
	binary.LittleEndian.PutUint64(file[sections:], 0)
	binary.LittleEndian.PutUint16(file[number:], 0)
	binary.LittleEndian.PutUint16(file[names:], 0)
	return file[:end], nil
}
