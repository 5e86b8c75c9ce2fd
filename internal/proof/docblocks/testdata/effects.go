package testdata

// Jobs of the page about effects.

type Receipt struct{ AccountID int64 }

type Newsletter struct{ Addresses []string }

type Mail struct{ To string }

type Import struct{ File string }

type Check struct{}

type Publish struct{}

func (Receipt) Class() string    { return "Receipt" }
func (Newsletter) Class() string { return "Newsletter" }
func (Mail) Class() string       { return "Mail" }
func (Import) Class() string     { return "Import" }
func (Check) Class() string      { return "Check" }
func (Publish) Class() string    { return "Publish" }
