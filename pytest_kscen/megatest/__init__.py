"""Volume churn: actors that create volumes, watch them and delete them.

Only the API, the clock and chance may be imported, and chaos; no cluster and no simulation.

    churn      parameters, and the values drawn for each volume
    volume     volume-main and multivolume; actors: attacher, resizer, replica creator and destroyer
    health     checker of a volume's conditions
    view       signals of the run, and the shared watch of volumes
"""
