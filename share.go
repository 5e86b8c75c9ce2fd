package troupe

// Share is a part of the jobs of a class: what Percent returns. The zero value is unset: all.
type Share struct {
	percent float64
	set     bool
}

// Percent is p percent of the jobs of a class, for Options.Take: 10 is every tenth. 0 is none, and
// 100 all.
func Percent(p float64) Share { return Share{percent: p, set: true} }

// Percent returns the p of Percent(p), 100 if s is unset, and whether it is set.
func (s Share) Percent() (p float64, set bool) {
	if !s.set {
		return 100, false
	}
	return s.percent, true
}

// Has tells whether the job of this jid is in the share. It is the same for each run of the job, in each
// process, and a job in a share is in each larger one.
func (s Share) Has(jid string) bool {
	if !s.set {
		return true
	}
	const fine = 1_000_000
	h := uint64(14695981039346656037) // FNV-1a, of which the low bits are mixed well
	for i := range len(jid) {
		h = (h ^ uint64(jid[i])) * 1099511628211
	}
	h ^= h >> 32
	return float64(h%fine) < s.percent*(fine/100)
}
