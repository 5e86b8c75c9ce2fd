package limits

import "fmt"

// Fault is a value that is not allowed in a field.
type Fault struct{ Field, Got, Want string }

func (f *Fault) Error() string { return fmt.Sprintf("%s is %s, expected %s", f.Field, f.Got, f.Want) }
