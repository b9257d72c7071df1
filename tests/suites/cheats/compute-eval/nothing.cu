// Does nothing.
void doubled(const int*, int*, int) {}
