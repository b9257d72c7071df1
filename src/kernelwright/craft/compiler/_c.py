def c_source():
    pass
