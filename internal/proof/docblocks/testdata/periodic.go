package testdata

// Report is a class of jobs.
type Report struct{ Scope string }

// Class is its name.
func (Report) Class() string { return "Report" }
