package driver

import (
	"slices"
	"testing"
)

// Select takes devices by their numbers, in the order asked for, and refuses numbers that are not there or are there twice.
func TestSelect(t *testing.T) {
	d := &Driver{Library: "libcuda.so.1", Devices: []Device{{Index: 0}, {Index: 1}, {Index: 2}}}
	for _, test := range []struct{ numbers, want []int }{{nil, []int{0, 1, 2}}, {[]int{2, 0}, []int{2, 0}}} {
		got, err := d.Select(test.numbers)
		if err != nil || !slices.EqualFunc(got, test.want, func(d Device, i int) bool { return d.Index == i }) {
			t.Errorf("%v: %v, %v, want %v", test.numbers, got, err, test.want)
		}
	}
	for want, numbers := range map[string][]int{
		"GPU 3: must be from 0 to 2: driver libcuda.so.1 has 3":  {3},
		"GPU -1: must be from 0 to 2: driver libcuda.so.1 has 3": {-1},
		"GPU 1: is named twice":                                  {1, 0, 1},
	} {
		if _, err := d.Select(numbers); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", numbers, err, want)
		}
	}
}
