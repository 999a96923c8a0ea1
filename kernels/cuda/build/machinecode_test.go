package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// products are the registers of a group of products in flight: the sums, and the operands that are not in shared memory.
type products struct{ sums, operands [256]bool }

// add adds the registers of other and reports whether that changed p.
func (p *products) add(other products) (changed bool) {
	before := *p
	for r := range p.sums {
		p.sums[r] = p.sums[r] || other.sums[r]
		p.operands[r] = p.operands[r] || other.operands[r]
	}
	return *p != before
}

// flight is what is in flight before an instruction: the open group, then the committed groups, the latest first. The last element
// has all older groups.
type flight [5]products

// instruction is a line of nvdisasm's output.
type instruction struct {
	text      string
	predicate bool   // it is executed under a condition
	code      string // such as HGMMA.64x64x16.F32
	operands  []string
}

// function is the machine code of a kernel.
type function struct {
	name   string
	code   []instruction
	labels map[string]int // the number of the instruction after a label
}

var (
	address   = regexp.MustCompile(`^/\*[0-9a-f]{4,}\*/\s*`)
	predicate = regexp.MustCompile(`^@!?U?P\w+\s+`)
	register  = regexp.MustCompile(`\bR(\d+)\b`)
	target    = regexp.MustCompile("`\\((\\S+)\\)")
	columns   = regexp.MustCompile(`^HGMMA\.64x(\d+)x16\.`)
)

// functions splits nvdisasm's output into kernels.
func functions(text string) (all []function) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, ".text.") && strings.HasSuffix(line, ":"):
			all = append(all, function{name: line[len(".text.") : len(line)-1], labels: map[string]int{}})
		case len(all) == 0:
		case strings.HasSuffix(line, ":"):
			f := all[len(all)-1]
			f.labels[line[:len(line)-1]] = len(f.code)
		case address.MatchString(line):
			line = strings.TrimRight(address.ReplaceAllString(line, ""), " ;")
			at := instruction{text: line, predicate: predicate.MatchString(line)}
			at.code, line, _ = strings.Cut(predicate.ReplaceAllString(line, ""), " ")
			for operand := range strings.SplitSeq(line, ",") {
				at.operands = append(at.operands, strings.TrimSpace(operand))
			}
			all[len(all)-1].code = append(all[len(all)-1].code, at)
		}
	}
	return all
}

// check returns what makes a kernel wrong, what makes it slow, and the number of its products. It is wrong if an instruction on any
// path accesses registers of products in flight. Slow are groups of a single product, which ptxas makes when it serialises
// products, and spilled registers.
func (f function) check() (wrong, slow []string, n int) {
	found := func(to *[]string, i int, mistake string) {
		if text := fmt.Sprintf("%s: %s: %s", f.name, f.code[i].text, mistake); !slices.Contains(*to, text) {
			*to = append(*to, text)
		}
	}
	group := 0
	for i, at := range f.code {
		switch {
		case strings.HasPrefix(at.code, "HGMMA"):
			n, group = n+1, group+1
			if at.last() {
				if group == 1 {
					found(&slow, i, "a group of one product")
				}
				group = 0
			}
		case strings.HasPrefix(at.code, "STL"), strings.HasPrefix(at.code, "LDL"):
			found(&slow, i, "a spilled register")
		}
	}
	before := make([]*flight, len(f.code)) // nil for instructions that have not been reached
	before[0] = new(flight)
	for todo := []int{0}; len(todo) > 0; {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		after := *before[i]
		next, mistake := f.step(i, &after)
		if mistake != "" {
			found(&wrong, i, mistake)
		}
		for _, j := range next {
			if j >= len(f.code) {
				continue
			}
			changed := before[j] == nil
			if changed {
				before[j] = new(flight)
			}
			for g := range after {
				changed = before[j][g].add(after[g]) || changed
			}
			if changed {
				todo = append(todo, j)
			}
		}
	}
	return wrong, slow, n
}

// step applies an instruction to what is in flight, and returns the instructions that may follow.
func (f function) step(i int, now *flight) (next []int, mistake string) {
	at := f.code[i]
	var all products
	for _, group := range now {
		all.add(group)
	}
	next = []int{i + 1}
	is := func(code string) bool { return strings.HasPrefix(at.code, code) }
	switch {
	case is("BSSY"), is("YIELD"):
		return next, ""
	case is("CALL"): // the callee, a division's slow path, is not followed
		if all != (products{}) {
			mistake = "a call while products are in flight"
		}
		return next, mistake
	case is("BRX"), is("JM"):
		return nil, "a jump that this test does not know"
	case is("EXIT") && !at.predicate, is("BPT"):
		return nil, ""
	case is("WARPGROUP.DEPBAR"):
		keep, err := strconv.ParseInt(at.operands[len(at.operands)-1], 0, 0)
		if err != nil || at.predicate {
			return next, "a wait that this test does not know"
		}
		for g := 1 + int(keep); g < len(now); g++ {
			now[g] = products{}
		}
		return next, ""
	case is("HGMMA"):
		return next, at.multiply(now, all)
	}
	for _, r := range at.registers() {
		if all.sums[r] || all.operands[r] {
			return next, fmt.Sprintf("R%d belongs to a product in flight", r)
		}
	}
	if jump := target.FindStringSubmatch(at.text); jump != nil {
		to, ok := f.labels[jump[1]]
		if !ok {
			return next, "an unknown label"
		}
		if at.code == "BRA" && !at.predicate && len(at.operands) == 1 {
			next = nil
		}
		next = append(next, to)
	}
	return next, ""
}

// last reports whether a product is the last one of its group.
func (at instruction) last() bool { return slices.Contains(at.operands, "gsb0") }

// multiply adds a product to what is in flight.
func (at instruction) multiply(now *flight, all products) (mistake string) {
	size, sums, operand := columns.FindStringSubmatch(at.code), at.first(0), at.first(1)
	if size == nil || sums < 0 {
		return "a product that this test does not know"
	}
	var this products
	n, _ := strconv.Atoi(size[1])
	for r := sums; r < min(256, sums+n/2); r++ {
		this.sums[r] = true
	}
	for r := operand; operand >= 0 && r < min(256, operand+4); r++ {
		this.operands[r] = true
	}
	for r := range all.sums {
		if this.sums[r] && all.operands[r] || this.operands[r] && all.sums[r] {
			mistake = fmt.Sprintf("R%d is a sum of one product in flight and an operand of another", r)
		}
	}
	now[0].add(this)
	if at.last() {
		end := len(now) - 1
		now[end].add(now[end-1])
		copy(now[1:end], now[:end-1])
		now[0] = products{}
	}
	return mistake
}

// first returns the number of the first register of an operand, or -1.
func (at instruction) first(operand int) int {
	if found := register.FindStringSubmatch(at.operands[operand]); found != nil {
		n, _ := strconv.Atoi(found[1])
		return n
	}
	return -1
}

// registers returns the registers that an instruction reads or writes, in the order of its operands, with all registers of wide ones.
func (at instruction) registers() (all []int) {
	for i, operand := range at.operands {
		first, width := at.first(i), 1
		switch inside := strings.Contains(operand, "["); {
		case inside && strings.Contains(operand, ".64"):
			width = 2
		case inside:
		case strings.Contains(at.code, ".128"), strings.HasPrefix(at.code, "LDSM") && strings.HasSuffix(at.code, ".4"):
			width = 4
		case strings.Contains(at.code, ".64"), strings.HasPrefix(at.code, "CS2R"), strings.HasSuffix(at.code, ".2"):
			width = 2
		case strings.Contains(at.code, "WIDE") && (i == 0 || i == len(at.operands)-1):
			width = 2
		}
		for r := first; first >= 0 && r < first+width; r++ {
			all = append(all, r)
		}
	}
	return all
}

// The check finds each kind of mistake, also one that only a second turn of a loop makes.
func TestMachineCodeMistakes(t *testing.T) {
	const group = "HGMMA.64x64x16.F32 R24, R4, gdesc[UR4].tnspB, R24 ;\nHGMMA.64x64x16.F32 R56, R8, gdesc[UR4].tnspB, R56, gsb0 ;\n"
	const one, none = "WARPGROUP.DEPBAR.LE gsb0, 0x1 ;\n", "WARPGROUP.DEPBAR.LE gsb0, 0x0 ;\n"
	for name, test := range map[string]struct {
		code, want string
	}{
		"waits for all":            {group + none + "MOV R24, R4 ;\nEXIT ;", ""},
		"other registers":          {group + "MOV R12, R88 ;\nLDSM.16.M88.4 R12, [R16] ;\n" + none + "EXIT ;", ""},
		"writes a sum":             {group + "MOV R87, RZ ;\n" + none, "R87 belongs"},
		"reads a sum":              {group + "@P0 FADD R3, R24, R88 ;\n" + none, "R24 belongs"},
		"writes an operand":        {group + "LDSM.16.M88.4 R1, [R16] ;\n" + none, "R4 belongs"},
		"stores two":               {group + "STS.64 [R16], R10 ;\n" + none, "R10 belongs"},
		"an address of two":        {group + "LDG.E R0, desc[UR4][R2.64+0x4] ;\nLDG.E R0, desc[UR4][R10.64] ;\n", "R10 belongs"},
		"waits for all but one":    {group + one + "MOV R24, RZ ;\n", "R24 belongs"},
		"the group before":         {group + strings.ReplaceAll(strings.ReplaceAll(group, "R24", "R120"), "R56", "R152") + one + "MOV R24, RZ ;\n", ""},
		"an open group":            {"HGMMA.64x64x16.F32 R24, R4, gdesc[UR4].tnspB, R24 ;\n" + none + "MOV R24, RZ ;\n", "R24 belongs"},
		"one product":              {"HGMMA.64x64x16.F32 R24, gdesc[UR4].tnspB, R24, gsb0 ;\n" + none, "a group of one product"},
		"the next turn of a loop":  {".L_x_0:\nMOV R8, RZ ;\n" + group + one + "@P0 BRA `(.L_x_0) ;\n" + none + "EXIT ;", "R8 belongs"},
		"a loop that waits":        {".L_x_0:\nMOV R8, RZ ;\n" + group + none + "@P0 BRA `(.L_x_0) ;\nEXIT ;", ""},
		"code that is not reached": {group + "BRA `(.L_x_1) ;\nMOV R24, RZ ;\n.L_x_1:\n" + none + "EXIT ;", ""},
		"a sum as an operand":      {group + "HGMMA.64x64x16.F32 R120, R24, gdesc[UR4].tnspB, R120, gsb0 ;\n", "a sum of one product"},
		"a call":                   {group + "CALL.REL.NOINC `(slow) ;\n", "a call"},
		"a spill":                  {"STL [R1], R4 ;\n", "a spilled register"},
	} {
		text := ".text.kernel:\n"
		for line := range strings.Lines(test.code) {
			if !strings.HasPrefix(line, ".L") {
				line = "/*0000*/ " + line
			}
			text += line
		}
		wrong, slow, _ := functions(text)[0].check()
		if got := strings.Join(append(wrong, slow...), "\n"); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %s", name, cmp.Diff(test.want, got))
		}
	}
}
