package net

import (
	"fmt"
	"testing"
)

func TestConfigText(t *testing.T) {
	for text, want := range map[string]Config{
		"6x64":      {6, 64, 32, 64},
		"2x16/8/16": {2, 16, 8, 16},
		"1x1/32/63": {1, 1, 32, 63},
	} {
		got, err := ParseConfig(text)
		if err != nil || got != want {
			t.Errorf("ParseConfig(%q) = %v, %v, want %v", text, got, err, want)
		}
		if s := want.String(); s != text {
			t.Errorf("String of %#v = %q, want %q", want, s, text)
		}
	}
	const hint = "want blocks x channels, such as 6x64, or with the widths of the heads, such as 6x64/32/64"
	for _, text := range []string{"", "6", "6x", "6x64x2", "06x64", "+6x64", "6x64/", "6x64/8", "6x64/8/16/2", "2x16x8/16", "6X64"} {
		_, err := ParseConfig(text)
		if want := fmt.Sprintf("network config %q: %s", text, hint); err == nil || err.Error() != want {
			t.Errorf("ParseConfig(%q): error %v, want %s", text, err, want)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{0, 64, 32, 64}, "network config: blocks is 0, must be 1 to 256"},
		{Config{257, 64, 32, 64}, "network config: blocks is 257, must be 1 to 256"},
		{Config{6, -1, 32, 64}, "network config: channels is -1, must be 1 to 2048"},
		{Config{6, 64, 0, 64}, "network config: head_channels is 0, must be 1 to 2048"},
		{Config{6, 64, 32, 8193}, "network config: hidden is 8193, must be 1 to 8192"},
		{Config{256, 2048, 32, 64}, "network config: 256x2048 has 19328631400 parameters, must be at most 134217728"},
	} {
		for _, use := range []func() error{
			c.config.Validate,
			func() error { _, err := New(c.config, 1); return err },
			func() error { _, err := FromWeights(c.config, nil); return err },
		} {
			if err := use(); err == nil || err.Error() != c.want {
				t.Errorf("%#v: error %v, want %s", c.config, err, c.want)
			}
		}
	}
}

// Any text is either refused, or read and written back unchanged.
func FuzzParseConfig(f *testing.F) {
	for _, s := range []string{"6x64", "2x16/8/16", "", "x", "1x1/1/1", "006x64"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseConfig(s)
		if err != nil {
			return
		}
		if again, err := ParseConfig(c.String()); err != nil || again != c {
			t.Fatalf("ParseConfig(%q) = %+v, written and read again %+v, %v", s, c, again, err)
		}
	})
}
