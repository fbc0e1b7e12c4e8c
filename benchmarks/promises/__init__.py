"""What fitstep promises: the same bits, the peak, faults that change nothing, no growth."""
