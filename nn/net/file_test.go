package net

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/safetensors"
)

// tiny is the smallest configuration, so that headers can be written out in tests.
var tiny = Config{Blocks: 1, Channels: 1, HeadChannels: 1, Hidden: 1}

func mustNew(t testing.TB, c Config, seed uint64) *Network {
	t.Helper()
	n := gametest.Must(NewScrambled(c, seed))(t)
	return n
}

func mustMarshal(t testing.TB, n *Network) []byte {
	t.Helper()
	file := gametest.Must(n.Marshal())(t)
	return file
}

func TestFileRoundTrip(t *testing.T) {
	for _, c := range []Config{tiny, {2, 16, 8, 16}, {3, 5, 7, 11}, {11, 2, 2, 2}} {
		n := mustNew(t, c, 7)
		n.Metadata["evald.name"] = "a <name> with \"quotes\", 四 and \n"
		n.Metadata["step"] = "100"
		file := mustMarshal(t, n)
		if again := mustMarshal(t, n); !bytes.Equal(file, again) {
			t.Errorf("%s: two writes differ", c)
		}
		if length := binary.LittleEndian.Uint64(file); length%8 != 0 {
			t.Errorf("%s: header length %d leaves the data unaligned", c, length)
		}
		got, err := Parse(file)
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		sameNetwork(t, got, n)
	}
}

func sameNetwork(t *testing.T, got, want *Network) {
	t.Helper()
	if !bytes.Equal(got.plain(), want.plain()) {
		t.Errorf("the network is another one: %v, metadata %v; want %v, %v", got.Config(), got.Metadata, want.Config(), want.Metadata)
	}
}

func TestReadFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "x.safetensors")
	n := mustNew(t, tiny, 1)
	gametest.OK(t, os.WriteFile(path, mustMarshal(t, n), 0o644))
	got, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sameNetwork(t, got, n)

	// A diverged network is not written.
	n.Weight("value.fc.bias").Float32s()[0] = float32(math.NaN())
	_, err = n.Marshal()
	if want := `write network: tensor "value.fc.bias" has NaN as value 0`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, err := ReadFile(filepath.Join(folder, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want one that is os.ErrNotExist", err)
	}
	gametest.OK(t, os.WriteFile(path, []byte("short"), 0o644))
	_, err = ReadFile(path)
	if want := path + ": parse network: file has 5 bytes, too few for a safetensors header"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	got.Metadata[configKey] = "{}"
	_, err = got.Marshal()
	if want := "write network: metadata evald.config is reserved"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// corrupt is the file of a tiny network with its header changed by edit and its data by trim.
func corrupt(t testing.TB, edit func(header string) string, trim func(data []byte) []byte) []byte {
	t.Helper()
	file := mustMarshal(t, mustNew(t, tiny, 1))
	length := binary.LittleEndian.Uint64(file)
	header, data := string(file[8:8+length]), file[8+length:]
	if edit != nil {
		before := header
		if header = edit(header); header == before {
			t.Fatal("the edit changed nothing")
		}
	}
	if trim != nil {
		data = trim(bytes.Clone(data))
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), data...)
}

// corruptions has one of each kind, with the exact text of the error.
var corruptions = []struct {
	name string
	edit func(header string) string
	trim func(data []byte) []byte
	want string
}{
	{
		"hole", swap(`"stem.bias":{"dtype":"F32","shape":[1],"data_offsets":[96,100]}`, `"stem.bias":{"dtype":"F32","shape":[1],"data_offsets":[100,104]}`), nil,
		`tensor "stem.bias": data begins at 100, leaving a hole of 4 bytes`,
	},
	{
		"overlap", swap(`[96,100]`, `[92,96]`), nil,
		`tensor "stem.bias": data begins at 92, inside that of tensor "policy.logit.weight"`,
	},
	{"backward offsets", swap(`[96,100]`, `[100,96]`), nil, `header: tensor "stem.bias": data_offsets are [100 96], want [from to]`},
	{
		"wrong size", swap(`"shape":[1],"data_offsets":[96,100]`, `"shape":[2],"data_offsets":[96,100]`), nil,
		`header: tensor "stem.bias": shape [2] of F32 needs 8 bytes, but data_offsets give 4`,
	},
	{
		"overflow", swap(`"shape":[1],"data_offsets":[96,100]`, `"shape":[4294967296,4294967297],"data_offsets":[96,100]`), nil,
		`header: tensor "stem.bias": shape [4294967296 4294967297]: dimension 4294967297 is out of range`,
	},
	{
		"huge claim", swap(`"shape":[1],"data_offsets":[96,100]`, `"shape":[2500000000],"data_offsets":[96,10000000096]`), nil,
		`tensor "stem.bias": data_offsets are [96 10000000096], but there are 356 bytes of data`,
	},
	{"no shape", swap(`"shape":[1],"data_offsets":[96,100]`, `"data_offsets":[96,100]`), nil, `header: tensor "stem.bias": shape is missing`},
	{
		"half precision", swap(`"stem.bias":{"dtype":"F32"`, `"stem.bias":{"dtype":"F16"`), nil,
		`header: tensor "stem.bias": dtype is "F16", want F32 or BF16`,
	},
	{"field of no meaning", swap(`"stem.bias":{`, `"stem.bias":{"order":"C",`), nil, `header: tensor "stem.bias": "order" is unknown`},
	{"field twice", swap(`"stem.bias":{`, `"stem.bias":{"dtype":"F32",`), nil, `header: "stem.bias/dtype" appears twice`},
	{"tensor twice", swap(`"stem.bias"`, `"policy.logit.bias"`), nil, `header: "policy.logit.bias" appears twice`},
	{"unknown tensor", swap(`"stem.bias"`, `"stem.bios"`), nil, `network 1x1/1/1: tensor "stem.bios" is unknown`},
	{
		"wrong shape", swap(`"shape":[1,1,1,1],"data_offsets":[92,96]`, `"shape":[1,1,1],"data_offsets":[92,96]`), nil,
		`network 1x1/1/1: tensor "policy.logit.weight" has shape [1 1 1], want [1 1 1 1]`,
	},
	{
		"missing tensor", cut(`,"value.wdl.weight"`, `}`), func(data []byte) []byte { return data[:len(data)-12] },
		`network 1x1/1/1: tensor "value.wdl.weight" is missing; its shape is [3 1]`,
	},
	{"more blocks", swap(`\"blocks\":1`, `\"blocks\":2`), nil, `network 2x1/1/1: tensor "blocks.1.conv1.weight" is missing; its shape is [1 1 3 3]`},
	{"bad config", swap(`\"blocks\":1`, `\"blocks\":0`), nil, `metadata evald.config: network config: blocks is 0, must be 1 to 256`},
	{"newer config", swap(`\"blocks\":1`, `\"blocks\":1,\"squeeze\":1`), nil, `metadata evald.config: "squeeze" is unknown`},
	{"broken config", swap(`\"hidden\":1}`, `\"hidden\":1`), nil, `metadata evald.config: JSON ends too early`},
	{"config and more", swap(`\"hidden\":1}`, `\"hidden\":1} 2`), nil, `metadata evald.config: jsontext: invalid character '2' after top-level value after offset 55`},
	{"no config", swap(`evald.config`, `evald.confog`), nil, `metadata evald.config is missing`},
	{"newer format", swap(`"evald.format":"1"`, `"evald.format":"2"`), nil, `metadata evald.format is "2", but this evald reads "1": use the evald that wrote it, or a newer one`},
	{"no metadata", remove(`"__metadata__":{`, `},`), nil, `metadata evald.format is missing, want "1": the file is no network of evald`},
	{
		"metadata not text", swap(`"evald.format":"1"`, `"evald.format":1`), nil,
		`header: metadata: json: cannot unmarshal JSON number into Go string within "/evald.format"`,
	},
	{"tensor not an object", swap(`"stem.bias":{`, `"extra":[],"stem.bias":{`), nil, `header: tensor "extra": json: cannot unmarshal JSON array into Go safetensors.description`},
	{"not JSON", func(string) string { return "safetensors!" }, nil, `header does not begin with {`},
	{"header ends early", func(h string) string { return h[:40] }, nil, `header: JSON ends too early`},
	{
		"junk after header", func(h string) string { return strings.TrimRight(h, " ") + " {}  " }, nil,
		`header: jsontext: invalid character '{' after top-level value after offset 1530`,
	},
	{
		"truncated", nil, func(data []byte) []byte { return data[:len(data)-1] },
		`tensor "value.wdl.weight": data_offsets are [344 356], but there are 355 bytes of data`,
	},
	{"trailing bytes", nil, func(data []byte) []byte { return append(data, 0) }, `1 bytes of data belong to no tensor`},
	{
		"not a number", nil, func(data []byte) []byte { return setFloat(data, 96, math.NaN()) },
		`network 1x1/1/1: tensor "stem.bias" has NaN as value 0`,
	},
}

func swap(from, to string) func(string) string {
	return func(header string) string { return strings.Replace(header, from, to, 1) }
}

// cut replaces everything from the text `from` on by end.
func cut(from, end string) func(string) string {
	return func(header string) string {
		head, _, _ := strings.Cut(header, from)
		return head + end
	}
}

// remove deletes the text from one mark up to and including the next other mark.
func remove(from, to string) func(string) string {
	return func(header string) string {
		head, rest, _ := strings.Cut(header, from)
		_, tail, _ := strings.Cut(rest, to)
		return head + tail
	}
}

func setFloat(data []byte, at int, value float64) []byte {
	binary.LittleEndian.PutUint32(data[at:], math.Float32bits(float32(value)))
	return data
}

func TestCorruptFiles(t *testing.T) {
	for _, c := range corruptions {
		n, err := Parse(corrupt(t, c.edit, c.trim))
		if want := "parse network: " + c.want; err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, want)
		}
		if err != nil && n != nil {
			t.Errorf("%s: an error and a network", c.name)
		}
	}
	length := func(n uint64, more ...byte) []byte { return append(binary.LittleEndian.AppendUint64(nil, n), more...) }
	for _, c := range []struct {
		file []byte
		want string
	}{
		{nil, "file has 0 bytes, too few for a safetensors header"},
		{length(5)[:7], "file has 7 bytes, too few for a safetensors header"},
		{length(5, '{', '}'), "header length is 5, but only 2 bytes follow"},
		{length(10e9, make([]byte, 12)...), "header length is 10000000000, must be at most 1048576"},
		{length(math.MaxUint64), "header length is 18446744073709551615, must be at most 1048576"},
		{length(2, '{', '}'), `metadata evald.format is missing, want "1": the file is no network of evald`},
	} {
		if _, err := Parse(c.file); err == nil || err.Error() != "parse network: "+c.want {
			t.Errorf("%d bytes:\n got %v\nwant parse network: %s", len(c.file), err, c.want)
		}
	}
}

// A file of a few hundred bytes that claims gigabytes is refused without large allocations.
func TestClaimsAreCheap(t *testing.T) {
	file := corrupt(t, swap(`{\"blocks\":1,\"channels\":1,`, `{\"blocks\":3,\"channels\":1500,`), nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := Parse(file); err == nil {
		t.Fatal("no error")
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("an error took %d bytes", used)
	}
}

// Files written by PyTorch's safetensors, in both types, are read; every value is exact in both.
func TestReadTorchFiles(t *testing.T) {
	for _, name := range []string{"torch_f32", "torch_bf16"} {
		n := gametest.Must(ReadFile(filepath.Join("testdata", name+".safetensors")))(t)
		config := Config{Blocks: 1, Channels: 2, HeadChannels: 1, Hidden: 1}
		if n.Config() != config || n.Metadata["evald.name"] != "tiny" {
			t.Errorf("%s: config %v, metadata %v", name, n.Config(), n.Metadata)
		}
		var names []string
		for _, s := range config.Specs() {
			names = append(names, s.Name)
		}
		slices.Sort(names)
		for seed, name := range names {
			for i, v := range n.Weight(name).Float32s() {
				if want := float32((i+seed)%7)/4 - 0.75; v != want {
					t.Fatalf("%s[%d] is %v, want %v", name, i, v, want)
				}
			}
		}
	}
}

func TestFromWeightsErrors(t *testing.T) {
	weights := func() map[string]*tensor.Dense { return maps.Clone(mustNew(t, tiny, 1).weights) }
	transposed := newTensor(make([]float32, 2), 2, 1)
	gametest.OK(t, transposed.T())
	for _, c := range []struct {
		name   string
		change *tensor.Dense
		want   string
	}{
		{"stem.bias", nil, `tensor "stem.bias" is missing; its shape is [1]`},
		{"stem.bias", newTensor(make([]float32, 2), 2), `tensor "stem.bias" has shape [2], want [1]`},
		{"stem.bias", tensor.New(tensor.WithShape(1), tensor.WithBacking([]float64{0})), `tensor "stem.bias" is of type float64, want float32`},
		{"value.fc.weight", transposed, `tensor "value.fc.weight" is a view or transposed, want contiguous row-major memory`},
		{"extra", newTensor(make([]float32, 2), 2), `tensor "extra" is unknown`},
	} {
		w := weights()
		w[c.name] = c.change
		_, err := FromWeights(tiny, w)
		if want := "network 1x1/1/1: " + c.want; err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// FuzzRead: no input makes the parser panic. What it accepts is written back as the same network.
//
//	go test ./nn/net -run '^$' -fuzz FuzzRead -fuzztime 1m -fuzzminimizetime 10x
func FuzzRead(f *testing.F) {
	f.Add(mustMarshal(f, mustNew(f, tiny, 1)))
	for _, c := range corruptions {
		f.Add(corrupt(f, c.edit, c.trim))
	}
	for _, name := range []string{"torch_f32", "torch_bf16"} {
		file, err := os.ReadFile(filepath.Join("testdata", name+".safetensors"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		n, err := Parse(file)
		if err != nil {
			return
		}
		again := gametest.Must(Parse(mustMarshal(t, n)))(t)
		sameNetwork(t, again, n)
	})
}

// If any byte of a file is changed, reading gives an error or the network that was written.
func TestDamagedFile(t *testing.T) {
	n := mustNew(t, Config{1, 2, 1, 2}, 7)
	n.Metadata["evald.rules"] = "7x6x4"
	file := mustMarshal(t, n)
	refused := 0
	for at := range file {
		for _, by := range []byte{1, 2, 0x20, 0x80, 0xff} {
			damaged := bytes.Clone(file)
			damaged[at] ^= by
			got, err := Parse(damaged)
			if err != nil {
				refused++
				continue
			}
			maps.DeleteFunc(got.Metadata, func(_, text string) bool { return text == safetensors.Sum(n.plain()) }) // the checksum, if its key was damaged
			if !bytes.Equal(got.plain(), n.plain()) {
				t.Errorf("byte %d (%q) as %q: another network is read", at, file[at], damaged[at])
			}
		}
	}
	if refused < 4*len(file) {
		t.Errorf("%d of %d were refused", refused, 5*len(file))
	}
}

// A checksum is always written and covers the content, however another program lays it out. It is not required.
func TestChecksum(t *testing.T) {
	for _, e := range models.List() {
		if strings.HasPrefix(e.Config, "pattern") {
			continue // package nn/pattern reads it
		}
		file, _, err := models.Open(e.Ref())
		if err != nil {
			t.Fatal(err)
		}
		n := gametest.Must(Parse(file))(t)
		if !bytes.Equal(mustMarshal(t, n), file) {
			t.Errorf("%s is not as it would be written", e.Ref())
		}
		if _, err := Parse(n.plain()); err != nil {
			t.Errorf("%s without its checksum: %v", e.Ref(), err)
		}
		n.Weight("stem.bias").Float32s()[0]++
		changed := n.fileMetadata()
		changed[safetensors.SumKey] = safetensors.Sum(file)
		if _, err := Parse(joined(changed, n.weights)); err == nil || !strings.Contains(err.Error(), "the file is damaged") {
			t.Errorf("%s with another weight: %v", e.Ref(), err)
		}
	}
}
